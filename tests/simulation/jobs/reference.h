// A sequential implementation of the same training. Every history of a job
// whose result does not depend on timing must produce its result.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "common/parameters/arena_layout.h"
#include "common/sparse/table_bucket.h"
#include "tests/simulation/jobs/scenario.h"

namespace tributary::simulation {

struct ModelState {
  std::vector<float> weights;  // Laid out as the arena.
  // Optimizer state, laid out as the arena.
  std::vector<std::vector<float>> slots;
  // The rows of each table and bucket.
  std::vector<std::vector<BucketRows>> tables;
};

struct ReferenceRun {
  ModelState state;            // After the last step.
  double evaluation_loss = 0;  // Loss of `state`, if the job evaluates.
  int64_t skipped = 0;         // Number of skipped steps.
};

// Returns the number of samples of each micro-batch of the step.
std::vector<int64_t> SampleCounts(const Scenario& scenario, int64_t step);
// Returns the number of samples of a round: all its steps.
int64_t SampleCountOfRound(const Scenario& scenario, int64_t round);

// Trains without servers, workers or messages: only micro-batches, the
// reduction tree, the norm and the optimizer.
ReferenceRun TrainReference(const Scenario& scenario,
                            const ArenaLayout& layout);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_REFERENCE_H_
