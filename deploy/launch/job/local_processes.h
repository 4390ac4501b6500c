// Describes how this program starts the servers and workers of a job.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_PROCESSES_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/local_job.h"
#include "deploy/launch/job/supervisor.h"
#include "proto/job.pb.h"

namespace tributary {

// Where a process runs on a cluster.
struct ProcessPlace {
  std::string node;       // The machine; see ProcessSpec::node.
  std::string listen;     // Value of --listen of a server.
  std::string advertise;  // Value of --advertise.
  int local_rank = 0;     // Value of --local-rank of a worker.
  int local_workers = 1;  // Number of workers on the machine.
  int threads = 0;        // Value of --threads; 0 if it is not set.
};

// The settings that all processes of a job share.
struct LocalProcesses {
  // The folder of the run. Server 0 reads logs/job.textproto in it. All
  // processes write their results to the folder and their logs to logs/ in it.
  std::string output;
  int servers = 1;
  WorkerCount workers{1, 1};
  int64_t spares = 0;      // Number of spare workers; see LocalTraining.
  int server_threads = 1;  // Threads of each server; see ServerThreads.
  int worker_threads = 1;
  std::string server_device = "cpu";  // Value of --device for servers.
  std::string worker_device = "cpu";  // Value of --device for workers.
  // The command line, for the shell, that starts a worker in place of this
  // program. In the environment of this command, TRIBUTARY_* variables hold the
  // flags that this program would pass to `tributary worker`. If empty, workers
  // run this program.
  std::string worker_command;
  // Where the first server serves metrics, as host:port; the other servers and
  // then the workers use the following ports. Empty: no metrics.
  std::string metrics_listen;
  std::string resume;  // Value of --resume for server 0; empty if not set.
  bool allow_job_changes = false;  // Value of --allow-job-changes for server 0.
  LogFlags log;
  SecurityFlags security;
  // place_server and place_worker return where the server of this shard, or the
  // worker of this rank, is to be started the next time. If both are null, all
  // processes run on this machine. Otherwise neither may be null, and the
  // processes read their credentials (see PrintSecurity) from their standard
  // input, and obey only signals of their launcher. `coordinator` is as in
  // LocalJobOptions::server.
  std::function<ProcessPlace(int shard, const std::string& coordinator)>
      place_server;
  std::function<ProcessPlace(int rank)> place_worker;
};

// Creates the folder `output`, the folder logs/ in it, and logs/job.textproto,
// from which server 0 reads the job. When the job starts, server 0 writes
// another job.textproto, directly in `output`. Returns the system's error, with
// the path, if a folder or file cannot be created.
absl::Status WriteJobFolder(const std::string& output, const JobSpec& job);

// Returns the address (host:port) at which a process serves metrics.
// `metrics_listen` is LocalProcesses::metrics_listen, and must be valid.
// `process` is the shard of a server, or the number of servers plus the rank of
// a worker.
std::string MetricsAddress(const std::string& metrics_listen, int process);

// Returns options that set the numbers of servers and workers, and describe how
// to start each of them. The caller sets the remaining options.
LocalJobOptions MakeLocalJob(const LocalProcesses& processes);

// Returns the variables of this process, as NAME=VALUE, except TRIBUTARY_*
// variables, which apply only to this process.
std::vector<std::string> ChildEnvironment();

// Returns the arguments of a process in which the shell runs `command`, a
// program and its arguments with the shell's quoting. The shell executes the
// program in its own place (exec), so the program receives the signals for the
// process.
std::vector<std::string> ShellArguments(const std::string& command);

// Returns the path of the running program's file, or /proc/self/exe if that
// file was removed or replaced since the start of this process.
std::string OwnProgram();

// Describes a process that runs this program with `arguments`. The new process
// inherits the environment except TRIBUTARY_* variables, which apply only to
// the current process.
ProcessSpec OwnProcess(const std::string& name,
                       std::vector<std::string> arguments,
                       const std::string& log_path);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_PROCESSES_H_
