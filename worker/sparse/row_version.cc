#include "worker/sparse/row_version.h"

#include <algorithm>

namespace tributary {

int64_t RowVersionOf(const JobSpec& job, int64_t step) {
  const ConsistencySpec& mode = job.exchange().parameter_server().consistency();
  return mode.has_asynchronous()
             ? kNewestRows
             : std::max<int64_t>(step - job.sparse().fixed_lag(), 0);
}

}  // namespace tributary
