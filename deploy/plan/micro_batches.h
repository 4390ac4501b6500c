// Chooses the number of micro-batches by the available memory, for
// batch.micro_batches: -1.
#ifndef TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_
#define TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/device/device.h"

namespace tributary {

// Returns the number of micro-batches for a job whose `workers` share `devices`
// devices like `device`. It is at least one per worker, if the batch can be
// divided so far, and a micro-batch fits into a worker's share of the memory
// that is free now. On a host, half of the memory is reserved for servers,
// weights and data. Returns ResourceExhausted, with a breakdown, if no number
// fits.
absl::StatusOr<int64_t> ChooseMicroBatches(const JobSpec& job, int64_t workers,
                                           int64_t devices,
                                           const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_
