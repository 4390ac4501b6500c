// Runs the servers and workers of one job.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_JOB_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_JOB_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/signals.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/restart_policy.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

struct LocalJobOptions {
  int servers = 1;
  int workers = 1;
  // Minimum number of running workers. The job fails if a lost worker is not
  // restarted and fewer workers than this are left.
  int fewest_workers = 1;
  // `server` and `worker` describe how to start a process. `coordinator` is the
  // host:port that server 0 has reported, and empty until then. When server 0
  // is restarted after it has reported, it must listen on `coordinator`,
  // because all processes expect the coordinator there.
  std::function<ProcessSpec(int shard, const std::string& coordinator)> server;
  std::function<ProcessSpec(int rank, const std::string& coordinator)> worker;

  // Called once, after all processes have started. May be null, like `on_tick`
  // and `on_message`.
  std::function<void(const std::string& coordinator)> on_started;
  // Called repeatedly after `on_started`, until the job ends: at least once
  // every `tick`, and after every signal. Must not block.
  std::function<void()> on_tick;
  absl::Duration tick = absl::Milliseconds(200);
  // Receives one line for the user for each warning of a process, and for each
  // lost process that is restarted or without which the job continues.
  std::function<void(const std::string&)> on_message;
  // Receives an event (see JobEvent in proto/rendezvous.proto) for each lost
  // process, when the process is restarted or when the job continues without
  // it. May be null. Must not block.
  std::function<void(const JobEvent&)> on_event;

  // Returns whether the job needs its workers, because steps are left, as far
  // as the coordinator was asked after `since`; nullopt if it has not answered
  // yet. Called after a worker has exited with 0. If null, LocalJob relies on
  // such a worker: the coordinator has released it. Must not block.
  std::function<absl::optional<bool>(absl::Time since)> needs_workers;

  // Maximum number of restarts of all processes of the job together; see
  // LocalJob.
  int max_restarts = 0;

  // Time, from the start of the job, within which server 0 must report its
  // address, even if server 0 is restarted.
  absl::Duration start_timeout = absl::Seconds(30);
  // Maximum time that server 0 may take to end the job with a checkpoint after
  // a signal.
  absl::Duration drain_timeout = absl::Minutes(5);
  // Replaces drain_timeout after SIGTERM. Set it if the scheduler of the
  // machines sends SIGKILL soon after SIGTERM. If it is set, a SIGTERM after
  // the first signal kills no process: it only limits the remaining time to
  // this timeout.
  absl::optional<absl::Duration> sigterm_drain_timeout;
  // After a signal, how long server 0 may be silent (see kStoppingNotice in
  // common/os/logger.h) before it is stopped like the other processes. Not used
  // if sigterm_drain_timeout is set, because notices may be late on a cluster.
  absl::Duration silence_timeout = absl::Seconds(3);
  // Time between SIGTERM and SIGKILL for all processes except server 0, and for
  // server 0 if the job fails. If sigterm_drain_timeout is set, five seconds
  // replace this time. Together with silence_timeout less than five seconds,
  // after which users and schedulers lose their patience.
  absl::Duration stop_timeout = absl::Milliseconds(1500);
  // Time after the job's end in which the remaining processes can write their
  // logs and exit. Processes that still run after it are stopped. Also how
  // long the warning of a worker that cannot take part is held back: most often
  // no worker can take part, and then the error of the job says why.
  absl::Duration settle_timeout = absl::Seconds(2);
};

struct LocalJobResult {
  // OK if the job succeeded, and Cancelled if a signal ended it. Otherwise an
  // error that names the process that failed, the reason and, if the process
  // was started, its log.
  absl::Status status;
  // Exit code with which a command that runs the job must end; see
  // deploy/flags/exit_code.h.
  int exit_code = 0;
  // The signal that ended the job; 0 if there was none.
  int signal = 0;
};

// Starts the processes of a job and derives its result from their exits. The
// job succeeds when every server has succeeded. It fails when a server or a
// worker exits with an error, with the following exceptions:
// - A process that a signal ended, or that exits with kExitPreempted (such as a
//   worker whose device has failed), is reported and restarted, up to
//   max_restarts times in total, but not if it fails at its start again and
//   again (see RestartPolicy). No process is restarted after a server has
//   succeeded. If a process is not restarted, the job fails when the process is
//   a server, or when fewer than fewest_workers workers remain.
// - A worker that exits with kExitUsage cannot take part, for example because
//   its machine lacks the data. It is reported, and the job continues unless
//   fewer than fewest_workers workers remain.
// - A worker that exits with 0 although steps are left (see needs_workers) is
//   restarted like a process that a signal ended, if it has completed a step.
//   Otherwise the job fails: the program that was started is no worker.
// The exits of workers have no effect once a server has succeeded. If a worker
// fails with an error and server 0 then reports an error, too, the result is
// the error of server 0, because server 0 learns of errors first and reports
// the cause.
//
// Lines that processes write to kWarningFd become messages. Each text becomes a
// message only once, with the name of the first process that wrote it. After
// 100 different texts, one message refers to the logs for all others. After a
// failure, warnings are no longer shown, so that the reason of the failure
// stands out.
//
// The first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 stops all processes
// gracefully: first server 0, which writes a checkpoint, and then all others.
// Processes that are suspended (SIGSTOP) continue, so that they can end. A
// later signal kills all processes if EndsImmediately (deploy/flags/signals.h)
// is true for the first signal and the later one. Not thread-safe. Call Run
// from a thread that outlives the processes (see Supervisor). The destructor
// ends every process.
class LocalJob {
 public:
  // Prepares a job whose processes a Supervisor starts, on this machine.
  // `signals` must have been created with `with_children` set, and must outlive
  // this object.
  LocalJob(LocalJobOptions options, SignalQueue* signals);
  // Prepares a job whose processes are started through `processes`. `processes`
  // and `signals` must outlive this object. No process may have been started
  // through `processes` before.
  LocalJob(LocalJobOptions options, SignalQueue* signals,
           ProcessControl* processes);

  // Runs the job, and blocks until all its processes have ended. Call it once.
  LocalJobResult Run();

  // Returns the process id of each server, then of each worker. For a server or
  // worker that was restarted, returns the id of the latest process. May be
  // called during LocalJobOptions::on_started and after it.
  std::vector<pid_t> pids() const;

 private:
  enum class Role { kServer, kWorker };
  struct Place {
    Role role = Role::kServer;
    int number = 0;  // Shard or rank.
  };

  // Starts all processes. Returns nullopt on success, otherwise the result of
  // the job.
  absl::optional<LocalJobResult> StartAll();
  // Starts a process. `number` is its shard or its rank. Returns nullopt on
  // success, otherwise the result of the job.
  absl::optional<LocalJobResult> StartProcess(Role role, int number,
                                              const ProcessSpec& spec);
  // Restarts the process that has ended and returns true, or returns false if
  // no restart is allowed. If the new process cannot be started, sets result_
  // to the error and returns true.
  bool StartAgain(const ProcessExit& exit);
  // Waits once for a signal, for at most `longest`. Then handles all events
  // that have occurred.
  void Pump(absl::Duration longest);
  void HandleSignal(int signal);
  void HandleExit(const ProcessExit& exit);
  void HandleServerExit(const ProcessExit& exit);
  void HandleWorkerExit(const ProcessExit& exit);
  // Decides about the workers that have exited with 0.
  void CheckEarlyEnds();
  void Fail(const ProcessExit& exit, const std::string& prefix);
  // Describes how a process ended, as the end of a sentence that begins with
  // the process's name: `exit.reason`; without it, the signal that killed the
  // process, the last error in its log, or its exit code. If the process has
  // crashed without an error in its log, adds the log's last line.
  std::string Describe(const ProcessExit& exit) const;
  void Message(const std::string& text) const;
  // Reports `text` to the user as a warning, and to the coordinator as an
  // event, about the process.
  void Warn(const Place& place, const std::string& kind,
            const std::string& text) const;
  // Reports the event without a warning.
  void Report(const Place& place, const std::string& kind,
              const std::string& text) const;
  // Reports that the job continues with `left` workers, without the one that
  // has ended. The warning of a worker that cannot take part is held back.
  void ContinueWithout(const ProcessExit& exit, int left);
  // Shows the warnings that are held back.
  void ShowRefusals();
  // Reports the warnings that processes have written since the last call.
  void PassWarnings();
  int Running(Role role) const;
  bool Ended() const;
  // If a signal ends the job, sends SIGTERM to server 0, which then writes a
  // checkpoint, and waits for its exit, for at most drain_timeout.
  void Drain();
  // Sends SIGTERM to the process, which receives it also if it is suspended.
  void Terminate(int process);
  // Waits until the remaining processes have ended. Stops them after a signal,
  // when no server is left to finish the job, or after settle_timeout.
  void StopRemaining();

  const LocalJobOptions options_;
  SignalQueue* const signals_;
  const std::unique_ptr<ProcessControl> own_processes_;  // Null if not needed.
  ProcessControl& supervisor_;
  std::vector<Place> places_;  // Indexed by process.
  // Index in `places_` of the latest process of each server, by shard, and of
  // each worker, by rank.
  std::map<int, int> servers_;
  std::map<int, int> workers_;
  std::string coordinator_;  // Address of the coordinator.
  RestartPolicy restarts_;
  int servers_done_ = 0;
  // Workers that have exited with 0, and when.
  std::vector<std::pair<ProcessExit, absl::Time>> early_ends_;
  std::set<std::string> warnings_;  // Warnings that were reported.
  // Warnings of workers that cannot take part, to be shown at refusals_due_.
  std::vector<std::string> refusals_;
  absl::Time refusals_due_ = absl::InfiniteFuture();
  int signal_ = 0;             // The first signal received.
  absl::Time drain_deadline_;  // Set by the first signal.
  // When server 0 has last shown that it is busy stopping the job.
  absl::Time last_sign_ = absl::InfinitePast();
  // True if a worker has failed and server 0 may still report the cause.
  bool explanation_awaited_ = false;
  absl::optional<LocalJobResult> result_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_LOCAL_JOB_H_
