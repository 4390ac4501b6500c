#include "deploy/flags/worker_count.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/job/exchange_traits.h"

namespace tributary {

std::string WorkerCount::ToString() const {
  return fewest == most ? absl::StrCat(most) : absl::StrCat(fewest, ":", most);
}

absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text,
                                             int64_t limit) {
  WorkerCount count;
  const size_t colon = text.find(':');
  const bool is_range = colon != absl::string_view::npos;
  const bool parsed =
      is_range ? absl::SimpleAtoi(text.substr(0, colon), &count.fewest) &&
                     absl::SimpleAtoi(text.substr(colon + 1), &count.most)
               : absl::SimpleAtoi(text, &count.most);
  if (!is_range) count.fewest = count.most;
  if (parsed && count.fewest >= 1 && count.fewest <= count.most &&
      count.most <= limit) {
    return count;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is neither a number from 1 to ", limit,
                   " nor two of them, MIN:MAX, as in 1:8"));
}

int64_t MostComputing(const JobSpec& job) {
  if (ResolveExchange(job).whole_batches) {
    return std::numeric_limits<int64_t>::max();
  }
  const int64_t workers_of_replica =
      job.parallel().has_pipeline() ? job.parallel().pipeline().stages() : 1;
  return workers_of_replica * job.batch().micro_batches();
}

}  // namespace tributary
