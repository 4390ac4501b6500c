// What simulated workers compute: not a network, but numbers that follow from
// the seed, the step, the leaf and the weights, so that nothing can go wrong
// with weights or gradients and not be seen in the result.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_TINY_MODEL_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_TINY_MODEL_H_

#include <cstdint>
#include <vector>

#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary::simulation {

// All functions are pure. Arenas are laid out as `layout` says; gaps are zero.
void InitialWeights(const JobSpec& job, const ArenaLayout& layout,
                    float* arena);

// Of the leaf's samples; where the job skips what is not finite, some steps'
// hold a NaN.
void MicroBatchGradient(const JobSpec& job, const ArenaLayout& layout,
                        int64_t step, int64_t micro_batch, const float* weights,
                        float* gradient);
// Some leaves are empty, but never leaf 0.
int64_t MicroBatchSampleCount(const JobSpec& job, int64_t step,
                              int64_t micro_batch);
double MicroBatchLoss(const ArenaLayout& layout, int64_t micro_batch,
                      const float* weights);
// Of all leaves of a step.
int64_t BatchSampleCount(const JobSpec& job, int64_t step);

EvaluationReport EvaluatePiece(const ArenaLayout& layout, int64_t version,
                               int64_t piece, const float* weights);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_TINY_MODEL_H_
