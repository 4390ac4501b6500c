// Reads the weights and the optimizer's state of a simulated job.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/simulation/processes/coordinator_process.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// Reads from the stores of all servers, which must be at `version`. Returns
// Unavailable if a server is not running or cannot be reached from `reader`.
absl::StatusOr<ModelState> ReadServers(World* world, Process* reader,
                                       int64_t version);

// Reads from the newest checkpoint, which must be of `version`, or from the
// final model. The final model has no optimizer state; this is taken from the
// world's result.
absl::StatusOr<ModelState> ReadSaved(World* world, int64_t version);

// Writes the weights as the final model and returns its manifest.
absl::StatusOr<CheckpointManifest> WriteFinal(
    World* world, const ModelState& state, const CheckpointManifest& manifest);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
