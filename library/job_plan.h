// What a Job starts.
#ifndef TRIBUTARY_LIBRARY_JOB_PLAN_H_
#define TRIBUTARY_LIBRARY_JOB_PLAN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "tributary/job.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// The resolved job and its threads.
struct JobPlan {
  JobSpec job;
  int servers = 1;
  int server_threads = 1;  // Of each server.
  int workers = 1;
  int worker_threads = 1;  // Of each worker.
  // The device of each worker; empty if the program computes.
  std::vector<DeviceName> devices;
};

// Reads the job and chooses threads and devices, by the rules of `tributary
// train`. Returns InvalidArgument or NotFound, naming the option or the field.
absl::StatusOr<JobPlan> PlanJob(const Job::Options& options);

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_PLAN_H_
