// MemberOptimizer in a device's memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/device/reduction_stream.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// Creates a MemberOptimizer for a job of `steps` steps. It queues its
// operations on `stream`, which holds the optimizer state in its device's
// memory. `layout` and `stream` must outlive the result. Returns the errors of
// Optimizer::Create.
absl::StatusOr<std::unique_ptr<MemberOptimizer>> CreateDeviceOptimizer(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    ReductionStream* stream);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_
