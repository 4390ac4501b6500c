// The servers and workers of one job on this machine, from start to end.
#ifndef TRIBUTARY_DEPLOY_LOCAL_JOB_H_
#define TRIBUTARY_DEPLOY_LOCAL_JOB_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/signals.h"
#include "deploy/supervisor.h"

namespace tributary {

struct LocalJobOptions {
  int servers = 1;
  int workers = 1;
  // How to start each process. `coordinator` is the host:port that server 0
  // has reported, empty for server 0 itself.
  std::function<ProcessSpec(int shard, const std::string& coordinator)> server;
  std::function<ProcessSpec(int rank, const std::string& coordinator)> worker;

  // Called once, when all processes are started.
  std::function<void(const std::string& coordinator)> on_started;
  // Called about every `tick`, and must not wait.
  std::function<void()> on_tick;
  absl::Duration tick = absl::Milliseconds(200);
  // One line for the person who started the job.
  std::function<void(const std::string&)> on_message;

  // Server 0 must have reported its address after so long.
  absl::Duration start_timeout = absl::Seconds(30);
  // Between SIGTERM and SIGKILL when the job is stopped.
  absl::Duration stop_timeout = absl::Seconds(10);
  // After the job's end the others may end by themselves, and write down what
  // happened, for so long before they are stopped.
  absl::Duration settle_timeout = absl::Seconds(2);
};

struct LocalJobResult {
  // Cancelled when a signal ended the job; else its message names the first
  // process that failed, why, and its log.
  absl::Status status;
  int exit_code = 0;
};

// What the ends of processes mean: the job is done when every server is. It has
// failed when a server ends in any other way, when a worker exits with an
// error, or when no worker is left. A worker that a signal killed is reported,
// and the others go on: the coordinator gives them its leaves. Where a worker's
// error makes others fail too, what server 0 says of it, which hears it first,
// is the reason that is given.
//
// The first SIGINT, SIGTERM or SIGHUP stops all processes in order, the second
// at once. Not thread-safe; Run must be called from a thread that stays (see
// Supervisor). Destruction ends every process.
class LocalJob {
 public:
  // `signals` must have been made with_children, and outlive this object.
  LocalJob(LocalJobOptions options, SignalQueue* signals);

  // Blocks until all processes have ended. Call it once.
  LocalJobResult Run();

  // From on_started on: the process of each server, then of each worker.
  std::vector<pid_t> pids() const;

 private:
  enum class Role { kServer, kWorker };
  // Starts everything; nullopt on success.
  absl::optional<LocalJobResult> StartAll();
  absl::optional<LocalJobResult> StartProcess(Role role,
                                              const ProcessSpec& spec);
  // Waits once, up to a tick, and takes in what happened.
  void Pump(absl::Duration longest);
  void HandleSignal(int signal);
  void HandleExit(const ProcessExit& exit);
  void HandleServerExit(const ProcessExit& exit);
  void HandleWorkerExit(const ProcessExit& exit);
  void Fail(const ProcessExit& exit, const std::string& prefix);
  void Message(const std::string& text) const;
  int Running(Role role) const;
  bool Ended() const;
  // Ends what still runs, as the result demands.
  void StopRemaining();

  const LocalJobOptions options_;
  SignalQueue* const signals_;
  Supervisor supervisor_;
  std::vector<Role> roles_;  // By process.
  int servers_done_ = 0;
  int signal_ = 0;  // The first that came.
  // A worker has failed, and server 0 may still say why.
  bool explanation_awaited_ = false;
  absl::optional<LocalJobResult> result_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LOCAL_JOB_H_
