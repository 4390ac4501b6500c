// The servers and workers of one job on this machine, from start to end.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_JOB_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_JOB_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/signals.h"
#include "deploy/launcher/supervisor.h"

namespace tributary {

struct LocalJobOptions {
  int servers = 1;
  int workers = 1;
  // With fewer that run, and none to be started again, the job has failed.
  int fewest_workers = 1;
  // How to start each process. `coordinator` is the host:port that server 0
  // has reported. For server 0 itself it is empty at first; when it is started
  // again it is where it is to listen, because everybody looks for it there.
  std::function<ProcessSpec(int shard, const std::string& coordinator)> server;
  std::function<ProcessSpec(int rank, const std::string& coordinator)> worker;

  // Called once, when all processes are started.
  std::function<void(const std::string& coordinator)> on_started;
  // Called about every `tick`, and must not wait.
  std::function<void()> on_tick;
  absl::Duration tick = absl::Milliseconds(200);
  // One line for the person who started the job: what happens to processes,
  // and what they warn of.
  std::function<void(const std::string&)> on_message;

  // Processes that a signal ended are started again, so often in all.
  int max_restarts = 0;

  // Server 0 must have reported its address after so long.
  absl::Duration start_timeout = absl::Seconds(30);
  // What server 0 gets to bring the job to an orderly end, with a checkpoint,
  // when it is stopped.
  absl::Duration drain_timeout = absl::Minutes(5);
  // Between SIGTERM and SIGKILL for the others, and when it fails.
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
// failed when a server or a worker exits with an error. One that a signal ended
// (it crashed, or somebody killed it) is reported and started again, as often
// as max_restarts allows; after that the loss of a server fails the job, and so
// does that of the last worker. Where a worker's error makes others fail too,
// what server 0 says of it, which hears it first, is the reason that is given.
//
// What processes write to kWarningFd becomes messages, each text once, with the
// name of the first process that said it. After a failure there are no more:
// its reason is what counts.
//
// The first SIGINT, SIGTERM or SIGHUP stops all processes in order, server 0
// first, which writes a checkpoint; the second stops them at once. Not
// thread-safe; Run must be called from a thread that stays (see Supervisor).
// Destruction ends every process.
class LocalJob {
 public:
  // `signals` must have been made with_children, and outlive this object.
  LocalJob(LocalJobOptions options, SignalQueue* signals);

  // Blocks until all processes have ended. Call it once.
  LocalJobResult Run();

  // From on_started on: the process of each server, then of each worker; of
  // those that were started again the newest.
  std::vector<pid_t> pids() const;

 private:
  enum class Role { kServer, kWorker };
  // Starts everything; nullopt on success.
  absl::optional<LocalJobResult> StartAll();
  // `number`: shard or rank.
  absl::optional<LocalJobResult> StartProcess(Role role, int number,
                                              const ProcessSpec& spec);
  // True: the process runs again.
  bool StartAgain(const ProcessExit& exit);
  // Waits once, up to a tick, and takes in what happened.
  void Pump(absl::Duration longest);
  void HandleSignal(int signal);
  void HandleExit(const ProcessExit& exit);
  void HandleServerExit(const ProcessExit& exit);
  void HandleWorkerExit(const ProcessExit& exit);
  void Fail(const ProcessExit& exit, const std::string& prefix);
  void Message(const std::string& text) const;
  // Passes on what processes have warned of since the last call.
  void PassWarnings();
  int Running(Role role) const;
  bool Ended() const;
  // Lets server 0 write a checkpoint, if a signal ends the job.
  void Drain();
  // Ends what still runs, as the result demands.
  void StopRemaining();

  const LocalJobOptions options_;
  SignalQueue* const signals_;
  Supervisor supervisor_;
  struct Place {
    Role role = Role::kServer;
    int number = 0;  // Shard or rank.
  };
  std::vector<Place> places_;  // By process.
  // The newest process of each shard and of each rank.
  std::map<int, int> servers_;
  std::map<int, int> workers_;
  std::string coordinator_;  // Its address.
  int restarts_ = 0;
  int servers_done_ = 0;
  std::set<std::string> warnings_;  // Those that were passed on.
  int signal_ = 0;                  // The first that came.
  // A worker has failed, and server 0 may still say why.
  bool explanation_awaited_ = false;
  absl::optional<LocalJobResult> result_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_LOCAL_JOB_H_
