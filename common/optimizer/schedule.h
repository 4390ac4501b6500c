// The learning rate of each step. See ScheduleSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// The learning rate of `step`, counted from 0, in a job of `total_steps`:
//   peak * (step + 1) / warmup                          while step < warmup,
//   final + (peak - final) * curve((step - warmup) / (end - warmup))   then,
//   final                                               from step `end` on,
// where end is decay_steps, or total_steps; curve(t) is 1, 1 - t or
// (1 + cos(pi t)) / 2 (nanoGPT's rule). A pure function that gives the same
// bits on every machine. `job` must be valid.
double LearningRateAt(const JobSpec& job, int64_t total_steps, int64_t step);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
