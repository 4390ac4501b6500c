// The learning rate of each step. See ScheduleSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Returns true for the decays that reach final_learning_rate at decay_steps or
// at the end of the job: LINEAR, COSINE, POLYNOMIAL and ONE_CYCLE.
bool HasEnd(ScheduleSpec::Decay decay);

// Returns the learning rate of `step`, counted from 0, in a job of
// `total_steps` steps. It is peak * (step + 1) / warmup while step < warmup,
// and then, for each value of ScheduleSpec.decay:
//   CONSTANT:    peak
//   LINEAR:      final + (peak - final) * (1 - t)
//   COSINE:      final + (peak - final) * (1 + cos(pi t)) / 2 (nanoGPT's rule)
//   POLYNOMIAL:  final + (peak - final) * (1 - t)^power
//   STEP:        peak * decay_factor^floor((step - warmup) / every)
//   EXPONENTIAL: peak * decay_factor^((step - warmup) / every)
//   ONE_CYCLE:   while step < top, peak + (start - peak) *
//                (1 + cos(pi step / top)) / 2, then the rule of COSINE with
//                t = (step - top) / (end - 1 - top)
//   TABLE:       the learning rate of the last entry up to step
// where t = (step - warmup) / (end - warmup), peak is PeakLearningRate, start
// is peak / rise_divisor, top is rise_share * end - 1, and the other names
// stand for fields of ScheduleSpec: warmup for warmup_steps, every for
// decay_every_steps, final for final_learning_rate, and end for decay_steps or,
// if that is 0, for total_steps. Starting with step end, the learning rate of
// LINEAR, COSINE and POLYNOMIAL is final; that of ONE_CYCLE is final one step
// earlier, as PyTorch's. A pure function that gives the same bits on every
// machine: it uses only operations that are exactly rounded everywhere. `job`
// must be valid.
double LearningRateAt(const JobSpec& job, int64_t total_steps, int64_t step);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_SCHEDULE_H_
