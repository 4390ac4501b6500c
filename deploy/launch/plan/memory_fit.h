// Computes the memory that a job needs on this machine, and changes the job so
// that it fits.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_MEMORY_FIT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_MEMORY_FIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/training/training_sources.h"

namespace tributary {

// A job and its processes.
struct FitInputs {
  JobSpec job;  // The resolved job.
  int64_t workers = 1;
  int servers = 1;
  int threads = 1;             // Compute threads of each worker.
  bool one_host = true;        // False: each process has a host of its own.
  bool one_process = false;    // All of them are threads of one process.
  bool fixed_workers = false;  // The user has named a device for each worker.
  // The number of devices of the same kind as the one that is passed, which
  // the workers share. Not used for CPUs.
  int64_t devices = 1;
  // The memory of the host that is free now, within the limits of the machine
  // and of the control group, and the limit of each process's address space.
  // Nullopt: unknown, or without limit.
  std::optional<int64_t> host_bytes;
  std::optional<int64_t> process_bytes;
};

// The memory of each server, of each worker, and of all processes together.
struct HostMemory {
  MemoryAccount server;
  MemoryAccount worker;
  MemoryAccount all;
};

// Returns the host memory that the job needs. `info` and `data_bytes` describe
// the data, as a worker has them in memory. Returns the errors of
// TrainingSources::plan_model.
absl::StatusOr<HostMemory> PlanHostMemory(const FitInputs& inputs,
                                          const DataInfo& info,
                                          int64_t data_bytes, bool evaluates,
                                          Device* device,
                                          const TrainingSources& sources);

// The job that fits.
struct JobFit {
  JobSpec job;  // Resolved.
  int64_t workers = 1;
  int threads = 1;
  // The changes of the job and of flags, as arguments of `tributary train`,
  // such as "--set batch.micro_batches=16". Empty if the job fits as it is.
  std::vector<std::string> changes;
  int64_t needed_bytes = 0;     // Of the host.
  int64_t available_bytes = 0;  // Likewise; 0: unknown.
};

// Finds the first of the following changes, and of their combinations, with
// which the job fits: more micro-batches, recomputed activations, one compute
// thread, one worker, sharded weights, and bfloat16. Leaves a tenth of the
// memory free. `device` is that of the workers. Returns ResourceExhausted if
// nothing fits, with the memory that the most modest job would need, and the
// errors of opening the data and of planning the model.
absl::StatusOr<JobFit> FitJob(const FitInputs& inputs, Device* device,
                              const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_MEMORY_FIT_H_
