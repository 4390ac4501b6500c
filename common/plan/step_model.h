// How long a training step takes when its exchange overlaps with computing: a
// small simulation of one worker, its link and its server, chunk by chunk.
#ifndef TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_
#define TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tributary {

// One worker's step if nothing ever made it wait, in seconds since its start.
struct ComputeProfile {
  double seconds = 0;
  // By chunk: when forward first reads its weights, and when backward has its
  // gradient in all of the worker's leaves.
  std::vector<double> needed_at;
  std::vector<double> ready_at;
};

// The profile of a network that spends the same time on every parameter, in
// forward `forward_share` of all of it. `chunk_elements` by chunk.
ComputeProfile EvenProfile(double seconds,
                           absl::Span<const int64_t> chunk_elements,
                           double forward_share = 1.0 / 3);

// `profile` with its time multiplied by `factor`.
ComputeProfile Stretch(ComputeProfile profile, double factor);

// How long all chunks of a step keep each resource busy, in seconds; a chunk
// takes the part that it is of all elements. The link is the busiest one.
struct ExchangeTimes {
  double up = 0;    // Gradients on the link.
  double pass = 0;  // The server's sum and update.
  double down = 0;  // New weights on the link.
  // Up and down go through the same interfaces in the same direction, because
  // servers run on the workers' hosts; otherwise they are two directions of
  // one link.
  bool shared_link = false;
  // No update before the last gradient of the step is there: clipping by the
  // global norm, or an optimizer that runs after an all-reduce.
  bool update_waits_for_all = false;
};

// Seconds from one step to the next, in synchronous mode, once steps follow
// each other: a chunk goes up when its gradient is ready, first layers first
// when several wait, is summed and updated, comes down, and only then can the
// next forward read it.
//
// Assumes that all workers are equally fast and work in step; leaves out the
// latency of single messages and the processors' work for the network.
double StepSeconds(const ComputeProfile& profile,
                   absl::Span<const int64_t> chunk_elements,
                   const ExchangeTimes& times);

// The same where no worker waits for another, nor for its own last step: the
// slowest resource sets the pace.
double BoundedStalenessStepSeconds(const ComputeProfile& profile,
                                   const ExchangeTimes& times);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_
