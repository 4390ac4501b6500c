// Runs a whole job for `tributary train` and `tributary compare`, by default on
// this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_TRAINING_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_TRAINING_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/transport/security.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signals.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/local_job.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/progress.h"
#include "deploy/launch/plan/run_prediction.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// A job for TrainLocally, and the numbers and settings of its processes.
struct LocalTraining {
  JobSpec job;          // The resolved job.
  WorkerCount workers;  // Number of workers; at most MostComputing(job).
  // Number of additional workers that wait to replace workers that fail.
  int64_t spares = 0;
  int servers = 1;
  int threads = 1;                    // Compute threads of each worker.
  DeviceName device;                  // Device of the first worker.
  std::string server_device = "cpu";  // Value of --device for servers.
  std::string worker_device = "cpu";  // Value of --device for workers.
  std::string worker_command;         // See LocalProcesses; may be empty.
  std::string metrics_listen;         // See LocalProcesses; may be empty.
  // The folder of the run, created by WriteJobFolder.
  std::string output;
  std::string resume;  // Value of --resume; empty if not set.
  bool allow_job_changes = false;
  int max_restarts = 0;
  LogFlags log;
  // Flags for servers and workers. If they name no credentials, and
  // `processes` is null, the job gets a token of its own (see RunToken).
  SecurityFlags security;
  // Credentials of this process, which queries the job's status and reports
  // events to the coordinator.
  Security own_security;
  // The last four fields are for a job on several machines: `place_server` and
  // `place_worker` return where a process runs (see LocalProcesses),
  // `processes` starts the processes, and `sigterm_drain_timeout` is as in
  // LocalJobOptions. By default, a Supervisor starts all processes on this
  // machine.
  std::function<ProcessPlace(int shard, const std::string& coordinator)>
      place_server;
  std::function<ProcessPlace(int rank)> place_worker;
  ProcessControl* processes = nullptr;
  absl::optional<absl::Duration> sigterm_drain_timeout;
};

// Runs the job and shows its progress on `display`. Blocks until the job has
// ended. `signals` must have been created with `with_children` set.
LocalJobResult TrainLocally(const LocalTraining& training, SignalQueue* signals,
                            ProgressDisplay* display);

// Returns the job and the numbers of processes and threads of `training`, for
// PredictLocalRun.
LocalRun RunOf(const LocalTraining& training);

// Adds the step time that PredictLocalRun computes to the run's summary.json,
// so that users can compare it with the measured step time. Call this after the
// job's end. Has no effect if `server_device` is not "cpu" or the run has no
// complete steps. Returns an error if summary.json cannot be read or written.
absl::Status AddPrediction(const LocalTraining& training);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_TRAINING_H_
