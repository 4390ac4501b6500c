// Reads the result of a simulated job.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// Reads the final model, which must be of `version`, from the disk. Takes the
// optimizer's state and the tables, which the final model lacks, from the
// servers, from the newest checkpoint, or from the world's earlier result; they
// are empty if none of them has them. `coordinator` is the process that has
// written the model.
absl::StatusOr<ModelState> ReadResult(World* world, Process* coordinator,
                                      int64_t version);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
