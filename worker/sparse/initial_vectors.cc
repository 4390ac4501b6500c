#include "worker/sparse/initial_vectors.h"

#include <vector>

#include "common/base/status_macros.h"
#include "common/sparse/initial_rows.h"
#include "worker/sparse/feature_rows.h"

namespace tributary {

absl::Status SetInitialVectors(const JobSpec& job, Batch* batch) {
  if (!job.has_sparse()) return absl::OkStatus();
  const FeatureRows features(job.sparse());
  TRIBUTARY_ASSIGN_OR_RETURN(const BatchRows rows, features.RowsOf(*batch));
  std::vector<float> values;
  for (int number = 0; number < job.sparse().table_size(); ++number) {
    const SparseTableSpec& table = job.sparse().table(number);
    const InitialRows initial(table, job.seed());
    for (const uint64_t key : rows.keys[number]) {
      values.resize(values.size() + table.dim());
      initial.Write(key, values.data() + values.size() - table.dim());
    }
  }
  batch->vectors.resize(batch->samples * features.width());
  features.Pool(*batch, rows, values.data(), batch->vectors.data());
  return absl::OkStatus();
}

}  // namespace tributary
