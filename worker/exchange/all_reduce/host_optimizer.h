// MemberOptimizer in host memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// Creates a MemberOptimizer for a job of `steps` steps. It works in host memory
// and holds the optimizer state of `chunks`, initialized to zero. Its calls
// return when their operations are complete. `layout` must outlive the result.
// Returns the errors of Optimizer::Create.
absl::StatusOr<std::unique_ptr<MemberOptimizer>> CreateHostOptimizer(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const std::vector<int>& chunks);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_
