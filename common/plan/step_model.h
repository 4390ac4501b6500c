// Predicts the time of a training step whose exchange overlaps with
// computation, by simulating one worker, its link and its server chunk by
// chunk.
#ifndef TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_
#define TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tributary {

// Timing of one worker's step without any waiting, in seconds from the start of
// the step.
struct ComputeProfile {
  double seconds = 0;
  // Indexed by chunk. `needed_at` is the time when forward first reads the
  // chunk's weights. `ready_at` is the time when backward has finished the
  // chunk's gradient for all of the worker's micro-batches.
  std::vector<double> needed_at;
  std::vector<double> ready_at;
};

// Returns the profile of a network that spends equal time on every parameter. A
// step takes `seconds`, of which forward takes the fraction `forward_share`.
// `chunk_elements` is indexed by chunk.
ComputeProfile EvenProfile(double seconds,
                           absl::Span<const int64_t> chunk_elements,
                           double forward_share = 1.0 / 3);

// Returns `profile` with all times multiplied by `factor`.
ComputeProfile Stretch(ComputeProfile profile, double factor);

// The time in seconds that each resource (the link and the server) needs for
// all chunks of one step. The time for one chunk is proportional to its number
// of elements. The link is the busiest link of the cluster.
struct ExchangeTimes {
  double up = 0;    // Sending the gradients over the link.
  double pass = 0;  // Summing and updating on the server.
  double down = 0;  // Sending the new weights over the link.
  // True if gradients and weights share the same direction of a link, because
  // servers run on the workers' hosts. Otherwise they use the two directions of
  // a link.
  bool shared_link = false;
  // True if no update can start before the last gradient of the step has
  // arrived: with clipping by the global norm, or with an optimizer that runs
  // after an all-reduce.
  bool update_waits_for_all = false;
};

// Returns the seconds per step in steady state in synchronous mode. A chunk is
// sent when its gradient is ready (earlier layers first if several wait),
// summed and updated, and sent back; only then can the next forward read it.
//
// Assumes equally fast workers that run in lockstep. Ignores the latency of
// single messages and the CPU time of networking.
double StepSeconds(const ComputeProfile& profile,
                   absl::Span<const int64_t> chunk_elements,
                   const ExchangeTimes& times);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_STEP_MODEL_H_
