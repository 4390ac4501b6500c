// A job on this machine, from its folder to its summary: what `tributary train`
// and `tributary compare` have in common.
#ifndef TRIBUTARY_DEPLOY_TRAIN_LOCAL_TRAINING_H_
#define TRIBUTARY_DEPLOY_TRAIN_LOCAL_TRAINING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/security.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signals.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launcher/local_job.h"
#include "deploy/launcher/progress.h"
#include "deploy/plan/run_prediction.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// How a job is spread here.
struct LocalTraining {
  JobSpec job;          // Resolved.
  WorkerCount workers;  // No more than can compute at the same time.
  int64_t spares = 0;   // Workers that stand by, beside these.
  int servers = 1;
  int threads = 1;                    // Of each worker.
  DeviceName device;                  // Of the first worker.
  std::string server_device = "cpu";  // The servers' --device.
  std::string worker_device = "cpu";  // The workers' --device.
  // WriteJobFolder has made it.
  std::string output;
  std::string resume;  // As the flag --resume; empty: none.
  bool allow_job_changes = false;
  int max_restarts = 0;
  LogFlags log;
  SecurityFlags security;  // Of servers and workers.
  Security own_security;   // Of this process, which only asks.
};

// This machine's cores divided by the workers, or what feeds a GPU; no more
// than a worker has leaves.
int DefaultWorkerThreads(const JobSpec& job, int64_t workers,
                         const DeviceName& device);

// Blocks until the job has ended; `display` shows how far it is. `signals` must
// have been made with_children.
LocalJobResult TrainLocally(const LocalTraining& training, SignalQueue* signals,
                            ProgressDisplay* display);

// The text of the summary.json in a run's folder.
absl::StatusOr<std::string> ReadSummary(const std::string& output);

// The processes that the job was spread over.
LocalRun RunOf(const LocalTraining& training);

// Adds to summary.json, after the job's end, what a step should have taken,
// where the CPU updates.
absl::Status AddPrediction(const LocalTraining& training);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_LOCAL_TRAINING_H_
