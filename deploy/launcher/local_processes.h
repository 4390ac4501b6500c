// How this program starts others of its kind: the servers and workers of a job
// on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_PROCESSES_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_PROCESSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launcher/local_job.h"
#include "deploy/launcher/supervisor.h"
#include "proto/job.pb.h"

namespace tributary {

// What all processes of a job have in common.
struct LocalProcesses {
  // The job's folder: its logs/job.textproto is what server 0 reads, its logs/
  // and results are written there.
  std::string output;
  int servers = 1;
  WorkerCount workers{1, 1};
  int64_t spares = 0;      // Workers beyond these, see LocalTraining.
  int server_threads = 1;  // Of each; see ServerThreads.
  int worker_threads = 1;
  std::string server_device = "cpu";  // See AddServerDeviceFlag.
  std::string worker_device = "cpu";  // See AddDeviceFlag.
  std::string resume;                 // The server's --resume; empty: none.
  bool allow_job_changes = false;     // The server's --allow-job-changes.
  LogFlags log;
  SecurityFlags security;
};

// An equal share of this machine's cores for each of its servers.
int ServerThreads(int servers);

// Makes the folder and its logs/, and writes logs/job.textproto. The folder's
// own job.textproto is written by server 0 when the job begins.
absl::Status WriteJobFolder(const std::string& output, const JobSpec& job);

// Options that say how to start each server and worker; the rest is the
// caller's.
LocalJobOptions MakeLocalJob(const LocalProcesses& processes);

// This program with other arguments. It gets our environment without
// TRIBUTARY_*: those settings are not meant for it.
ProcessSpec OwnProcess(const std::string& name,
                       std::vector<std::string> arguments,
                       const std::string& log_path);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_PROCESSES_H_
