// The same training once more, one step after the other on one page: what every
// history of a job whose result does not depend on timing must come to.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_REFERENCE_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "common/parameters/parameter_table.h"
#include "tests/simulation/world/scenario.h"

namespace tributary::simulation {

struct ModelState {
  std::vector<float> weights;             // The arena.
  std::vector<std::vector<float>> slots;  // The optimizer's, likewise.
};

struct ReferenceRun {
  ModelState state;            // After the last step.
  double evaluation_loss = 0;  // Of it, if the job evaluates.
  int64_t skipped = 0;         // Steps.
};

// Knows of no servers, workers or messages: only leaves, the tree, the norm and
// the optimizer.
ReferenceRun TrainReference(const Scenario& scenario,
                            const ArenaLayout& layout);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_REFERENCE_H_
