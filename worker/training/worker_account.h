// Computes the memory that a worker needs.
#ifndef TRIBUTARY_WORKER_TRAINING_WORKER_ACCOUNT_H_
#define TRIBUTARY_WORKER_TRAINING_WORKER_ACCOUNT_H_

#include <optional>

#include "proto/rendezvous.pb.h"
#include "worker/training/task_runner.h"
#include "worker/training/training_setup.h"

namespace tributary {

// The memory of the host, and that of the device if it has its own.
struct WorkerAccount {
  MemoryAccount host;
  std::optional<MemoryAccount> device;
};

// What a worker does in a step.
struct WorkerShare {
  int micro_batches = 1;
  // Compute threads; those of the setup may be released at any time.
  int threads = 1;
  int workers = 1;
  // True if the worker reads the weights in memory that a server shares.
  bool shares_memory = true;
};

// Returns the memory that the worker of `setup` needs at most. `runner` is
// Trainer::runner. May be called by any thread.
WorkerAccount AccountOf(const TrainingSetup& setup, const TaskRunner* runner,
                        const WorkerShare& share);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_WORKER_ACCOUNT_H_
