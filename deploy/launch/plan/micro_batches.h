// Chooses the number of micro-batches by the available memory, for jobs with
// batch.micro_batches: -1 (kFindMicroBatches).
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_MICRO_BATCHES_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_MICRO_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/device/device.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Returns the number of micro-batches for a job with `workers` workers, which
// share `devices` devices of the same kind as `device`. The result is the
// smallest number for which a micro-batch fits into a worker's share of the
// memory that is free now. It is at least the number of workers, unless the
// batch cannot be divided into so many micro-batches. On the CPU, half of the
// free memory is reserved for servers, weights and data. If the amount of free
// memory is unknown, returns the largest possible number.
//
// Opens the job's data set with `sources` to determine the size of a sample,
// and returns the errors of opening it. Returns ResourceExhausted, with a
// breakdown of the memory, if even the smallest micro-batches do not fit.
absl::StatusOr<int64_t> ChooseMicroBatches(const JobSpec& job, int64_t workers,
                                           int64_t devices,
                                           const Device& device,
                                           const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_MICRO_BATCHES_H_
