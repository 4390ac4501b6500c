#include "worker/training/worker_account.h"

#include "common/plan/memory_account.h"

namespace tributary {

WorkerAccount AccountOf(const TrainingSetup& setup, const TaskRunner* runner,
                        const WorkerShare& share) {
  const MicroBatchMemory& thread = setup.thread_memory();
  const bool own_memory = setup.device(/*thread=*/0)->has_own_memory();
  WorkerLoad load = {setup.job()};
  load.elements = setup.layout().arena_elements();
  load.workers = share.workers;
  load.threads = share.threads;
  load.micro_batches = share.micro_batches;
  load.shares_memory = share.shares_memory;
  load.activation_bytes = own_memory ? 0 : thread.activations;
  load.workspace_bytes = setup.device(/*thread=*/0)->workspace_bytes();
  load.data_bytes = setup.data_bytes();
  WorkerAccount account;
  account.host = WorkerMemory(load);
  if (runner != nullptr) {
    const MemoryAccount parts =
        runner->Memory(share.micro_batches, share.shares_memory);
    account.host.set_weights(parts.weights());
    account.host.set_optimizer(parts.optimizer());
    account.host.set_gradients(parts.gradients());
    account.host.set_activations(parts.activations());
    account.host.set_copies(parts.copies());
  }
  if (!own_memory) return account;
  const int threads = share.threads;
  MemoryAccount& device = account.device.emplace();
  device.set_weights(threads * thread.weights);
  device.set_gradients(threads * thread.gradients);
  device.set_activations(threads * thread.activations);
  device.set_workspace(threads * thread.working);
  return account;
}

}  // namespace tributary
