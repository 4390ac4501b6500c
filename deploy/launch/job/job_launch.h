// A job, and how this program starts its servers and workers.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_LAUNCH_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/transport/security.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/job_runner.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/progress_display.h"
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

// A job, and the numbers and settings of its processes.
struct JobLaunch {
  JobSpec job;                // The resolved job.
  WorkerCount workers{1, 1};  // At most MostComputing(job).
  // Number of additional workers that wait to replace workers that fail.
  int64_t spares = 0;
  int servers = 1;
  int threads = 1;  // Compute threads of each worker.
  // Threads of each server; 0: the number that ServerThreads returns.
  int server_threads = 0;
  std::string server_device = "cpu";  // Value of --device for servers.
  std::string worker_device = "cpu";  // Value of --device for workers.
  // The command line, for the shell, that starts a worker in place of this
  // program. In the environment of this command, TRIBUTARY_* variables hold the
  // flags that this program would pass to `tributary worker`. If empty, workers
  // run this program.
  std::string worker_command;
  // The folder in which worker_command runs; empty: that of this process.
  std::string worker_folder;
  // Value of --data-cache for workers; empty if not set.
  std::string data_cache;
  // Where the first server serves metrics, as host:port; the other servers and
  // then the workers use the following ports. Empty: no metrics.
  std::string metrics_listen;
  // The folder of the run, created by WriteJobFolder. All processes write their
  // results to it and their logs to logs/ in it.
  std::string output;
  std::string resume;  // Value of --resume for server 0; empty if not set.
  bool allow_job_changes = false;  // Value of --allow-job-changes for server 0.
  int64_t max_restarts = 0;        // See JobRunnerOptions.
  LogFlags log;
  // Flags for servers and workers. If they name no credentials, and `processes`
  // is null, the job gets a token of its own (see RunToken).
  SecurityFlags security;
  // Credentials of this process, which queries the job's status and reports
  // events to the coordinator.
  Security own_security;

  // The remaining fields are for a job on several machines, whose processes
  // `processes` starts. It must outlive the job. place_server and place_worker
  // return where the server of this shard, or the worker of this rank, is to be
  // started the next time. The processes read their credentials (see
  // PrintSecurity) from their standard input, and obey only signals of their
  // launcher. `coordinator` and sigterm_drain_timeout are as in
  // JobRunnerOptions.
  ProcessControl* processes = nullptr;
  std::function<ProcessPlace(int shard, const std::string& coordinator)>
      place_server;
  std::function<ProcessPlace(int rank)> place_worker;
  absl::optional<absl::Duration> sigterm_drain_timeout;

  // Returns the number of threads of each server.
  int ThreadsOfServer() const;
};

// Creates the folder of the run, the folder logs/ in it, and
// logs/job.textproto, from which server 0 reads the job. When the job starts,
// server 0 writes another job.textproto, directly in the folder. Returns the
// system's error, with the path, if a folder or file cannot be created.
absl::Status WriteJobFolder(const JobLaunch& launch);

// Returns the address (host:port) at which a process serves metrics.
// `metrics_listen` is JobLaunch::metrics_listen, and must be valid.
// `process` is the shard of a server, or the number of servers plus the rank of
// a worker.
std::string MetricsAddress(const std::string& metrics_listen, int process);

// Returns options that describe the processes of the job and how to connect to
// its coordinator. The caller sets the callbacks. If the job gets a token, its
// file exists as long as the options. Returns the errors of RunToken::Create.
absl::StatusOr<JobRunnerOptions> MakeRunnerOptions(JobLaunch launch);

// Runs the job and shows its progress on `display`. Blocks until the job has
// ended. `signals` must have been created with `with_children` set.
JobEnd RunJob(const JobLaunch& launch, SignalQueue* signals,
              ProgressDisplay* display);

// Runs a job with these options, whose on_tick and on_message this function
// sets, and shows its progress on `display`. `output` is the folder of the run.
// `processes` and `next_signal` are as in JobRunner. Blocks until the job has
// ended.
JobEnd RunShown(JobRunnerOptions options, ProcessControl* processes,
                const std::string& output,
                const std::function<int(absl::Duration)>& next_signal,
                ProgressDisplay* display);

// Returns the variables of this process, as NAME=VALUE, except TRIBUTARY_*
// variables, which apply only to this process.
std::vector<std::string> ChildEnvironment();

// Returns the arguments of a process in which the shell runs `command`, a
// program and its arguments with the shell's quoting, in `folder` if it is not
// empty. The shell executes the program in its own place (exec), so the program
// receives the signals for the process.
std::vector<std::string> ShellArguments(const std::string& command,
                                        const std::string& folder = "");

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

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_LAUNCH_H_
