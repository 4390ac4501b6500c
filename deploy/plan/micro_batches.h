// batch.micro_batches: -1, found by what fits.
#ifndef TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_
#define TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/device/device.h"

namespace tributary {

// The number of micro-batches for a job whose `workers` share, in all,
// `devices` devices like this one: at least one for each worker, if the batch
// can be cut into so many, and leaves that fit into a worker's part of the
// memory that is free now. Half of a host's is left to servers, weights and
// data. ResourceExhausted, with an account, when none fits.
absl::StatusOr<int64_t> ChooseMicroBatches(const JobSpec& job, int64_t workers,
                                           int64_t devices,
                                           const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_MICRO_BATCHES_H_
