// The computation of simulated workers. In place of a network, it derives
// gradients from the seed, the step, the micro-batch and the weights, so that
// any error in weights or gradients shows in the result.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_MODEL_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_MODEL_H_

#include <cstdint>
#include <vector>

#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/nn/step_observer.h"

namespace tributary::simulation {

// Writes the initial weights. All functions are pure. Arenas are laid out as
// `layout` states, with zeros in gaps.
void InitialWeights(const JobSpec& job, const ArenaLayout& layout,
                    float* arena);

// Returns the gradient of the micro-batch's samples. If the job skips
// non-finite gradients, some steps contain a NaN.
void MicroBatchGradient(const JobSpec& job, const ArenaLayout& layout,
                        int64_t step, int64_t micro_batch, int64_t sample_count,
                        const float* weights, float* gradient);
double MicroBatchLoss(const ArenaLayout& layout, int64_t micro_batch,
                      const float* weights);
LossSums EvaluatePiece(const ArenaLayout& layout, int64_t piece,
                       const float* weights);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_MODEL_H_
