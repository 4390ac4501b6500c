// The learning rate of each step. See ScheduleSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Returns the learning rate of `step`, counted from 0, in a job of
// `total_steps` steps. It is peak * (step + 1) / warmup while step < warmup,
// and then, for each value of ScheduleSpec.decay:
//   CONSTANT: peak
//   LINEAR:   final + (peak - final) * (1 - t)
//   COSINE:   final + (peak - final) * (1 + cos(pi t)) / 2 (nanoGPT's rule)
// where t = (step - warmup) / (end - warmup), peak is PeakLearningRate, and the
// other names stand for fields of ScheduleSpec: warmup for warmup_steps, final
// for final_learning_rate, and end for decay_steps or, if that is 0, for
// total_steps. Starting with step end, the learning rate of LINEAR and COSINE
// is final. A pure function that gives the same bits on every machine. `job`
// must be valid.
double LearningRateAt(const JobSpec& job, int64_t total_steps, int64_t step);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
