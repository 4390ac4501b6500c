// The data set and the model of simulated workers.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_TINY_TRAINING_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_TINY_TRAINING_H_

#include "absl/time/time.h"
#include "tests/simulation/world/world.h"
#include "worker/training/training_setup.h"

namespace tributary::simulation {

// Computes the functions of tiny_model.h or, with a pipeline or tables, the
// network of tiny_network.h. A micro-batch takes about `micro_batch` of virtual
// time, in which weights are needed and gradients become final chunk by chunk.
// `world` must outlive the result.
TrainingSources TinySources(World* world, absl::Duration micro_batch);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_TINY_TRAINING_H_
