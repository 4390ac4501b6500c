// Weights and the optimizer's state, from where they are.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/simulation/processes/coordinator_process.h"
#include "tests/simulation/world/world.h"

namespace tributary::simulation {

// From all servers' stores, which must be at this version. Unavailable if one
// is not there, or cannot be reached from `reader`.
absl::StatusOr<ModelState> ReadServers(World* world, Process* reader,
                                       int64_t version);

// From the newest checkpoint, which must be of this version, or the final
// model; this has no optimizer state: that of the world's result is taken.
absl::StatusOr<ModelState> ReadSaved(World* world, int64_t version);

// Writes the weights as the final model. Returns the manifest beside it.
absl::StatusOr<CheckpointManifest> WriteFinal(
    World* world, const ModelState& state, const CheckpointManifest& manifest);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_MODEL_STATE_H_
