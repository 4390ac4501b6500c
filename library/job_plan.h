// Decides which servers, workers and threads a Job starts, and on which
// devices.
#ifndef TRIBUTARY_LIBRARY_JOB_PLAN_H_
#define TRIBUTARY_LIBRARY_JOB_PLAN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "tributary/job.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// The resolved job (see ResolveJob), and the numbers of its servers, workers
// and threads.
struct JobPlan {
  JobSpec job;
  int servers = 1;
  int server_threads = 1;  // Threads of each server.
  int workers = 1;
  int worker_threads = 1;  // Compute threads of each worker.
  // The device of each worker, indexed by rank; empty if Job::Options::worker
  // computes the gradients.
  std::vector<DeviceName> devices;
};

// Reads the job and chooses threads and devices as `tributary train` does.
// Returns InvalidArgument for an invalid option, and the errors of ReadJob and
// ChooseDevice.
absl::StatusOr<JobPlan> PlanJob(const Job::Options& options);

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_PLAN_H_
