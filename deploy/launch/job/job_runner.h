// Starts, watches, pauses and stops one job.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_RUNNER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_RUNNER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/coordinator_client.h"
#include "deploy/launch/job/job_members.h"
#include "deploy/launch/job/job_messages.h"
#include "deploy/launch/job/process_control.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

struct JobRunnerOptions {
  // Returns options for processes that are threads (ProcessThreads). All waits
  // are unlimited, because threads cannot be killed. After a failure, the
  // others are stopped at once, because they would try to join again.
  static JobRunnerOptions ForThreads();

  int servers = 1;
  int workers = 1;
  // Minimum number of running workers. The job fails if a lost worker is not
  // restarted and fewer workers than this are left.
  int fewest_workers = 1;
  // `server` and `worker` describe how to start a process. `coordinator` is the
  // address that server 0 has reported, and empty until then. When server 0 is
  // restarted after it has reported, it must listen on `coordinator`, because
  // all processes expect the coordinator there.
  std::function<ProcessSpec(int shard, const std::string& coordinator)> server;
  std::function<ProcessSpec(int rank, const std::string& coordinator)> worker;

  // Connects to the coordinator. If null, the runner asks for no status,
  // reports no events, and relies on a worker that exits with 0: the
  // coordinator has released it, and is ending the job.
  std::function<std::unique_ptr<CoordinatorClient>(const std::string& address)>
      connect;
  // Called repeatedly after all processes have started, until the job ends: at
  // least once every `tick`, and after every signal, with the newest status of
  // the coordinator; its phase is PHASE_UNSPECIFIED if there is none yet. May
  // be null, like `on_message`. Must not block.
  std::function<void(const StatusReply& newest)> on_tick;
  absl::Duration tick = absl::Milliseconds(200);
  // Receives one line for the user for each warning of a process, and for each
  // lost process that is restarted or without which the job continues.
  std::function<void(const std::string&)> on_message;

  // The clock with which all times below are measured.
  std::function<absl::Time()> clock = &absl::Now;

  // Maximum number of restarts of all processes of the job together; see
  // JobRunner.
  int max_restarts = 0;
  // True if the end of another server says nothing about the job, and if server
  // 0 is the first process to be stopped after a failure: threads cannot be
  // killed, and server 0 would wait for the other servers. The job has
  // succeeded as soon as server 0 has.
  bool server_0_decides = false;

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
  // Time after the job's success, or its failure, in which the remaining
  // processes can write their logs and exit. Processes that still run after it
  // are stopped; after a failure, sooner if no worker is left and the
  // coordinator waits for workers. `failure_timeout` is also how long the
  // warning of a worker that cannot take part is held back; see
  // JobMessages::WarnLater.
  absl::Duration settle_timeout = absl::Seconds(2);
  absl::Duration failure_timeout = absl::Seconds(2);
};

// How a job has ended.
struct JobEnd {
  // OK if the job succeeded, and Cancelled if Pause, Stop or a signal ended it.
  // Otherwise an error that names the process that failed, the reason and, if
  // the process was started, its log; for a thread, the thread's error.
  absl::Status status;
  // Exit code with which a command that runs the job must end; see
  // deploy/flags/exit_code.h.
  int exit_code = 0;
  // The signal that ended the job; 0 if there was none.
  int signal = 0;
  // True if the job was paused: server 0 has stopped at a checkpoint, if the
  // job has completed a step since the last one. A runner of the same job whose
  // server 0 is started with --resume continues with the same weights.
  bool paused = false;
};

// Runs the processes of one job, wherever a ProcessControl starts them, and
// derives the job's end from their exits. The job succeeds when every server
// has succeeded. It fails when a server or a worker exits with an error, with
// the following exceptions:
// - A process that a signal ended, or that exits with kExitPreempted (such as a
//   worker whose device has failed), is reported and restarted, up to
//   max_restarts times in total, but not if it fails at its start again and
//   again (see RestartPolicy). No process is restarted after a server has
//   succeeded. If a process is not restarted, the job fails when the process is
//   a server, or when fewer than fewest_workers workers remain.
// - A worker that exits with kExitUsage cannot take part, for example because
//   its machine lacks the data. It is reported, and the job continues unless
//   fewer than fewest_workers workers remain.
// - A worker that exits with 0 although steps are left, as far as the
//   coordinator was asked after its exit, is restarted like a process that a
//   signal ended, if it has completed a step. Otherwise the job fails: the
//   program that was started is no worker.
// The exits of workers have no effect once a server has succeeded. If a worker
// fails with an error and server 0 then reports an error, too, the result is
// the error of server 0, because server 0 learns of errors first and reports
// the cause. After a failure, warnings of processes are no longer shown, so
// that the reason of the failure stands out.
//
// Pause, and the first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2, stop all
// processes gracefully: first server 0, which writes a checkpoint, and then all
// others. Processes that are suspended (SIGSTOP) continue, so that they can
// end. Stop, and a second signal if EndsImmediately
// (deploy/flags/signal_queue.h) is true for the first signal and the second,
// kill all processes.
//
// One thread can run several jobs: it calls Advance of each runner whenever a
// signal arrives (see SignalQueue) or Patience has passed. Not thread-safe. Use
// a runner on a thread that outlives the processes (see Supervisor). The
// destructor ends every process. No method blocks, except Wait and the
// destructor.
class JobRunner {
 public:
  // The processes are started through `processes`, which must outlive this
  // object and must not have started any yet. If it is null, a Supervisor
  // starts them on this machine.
  explicit JobRunner(JobRunnerOptions options,
                     ProcessControl* processes = nullptr);

  // Starts server 0. Advance starts the others when it is ready. Call once.
  void Start();
  // Handles what has happened since the last call, and `signal`, a signal that
  // this process has received; 0: none. Returns false once the job has ended.
  bool Advance(int signal = 0);
  // Returns the time after which Advance must be called at the latest.
  absl::Duration Patience() const;
  // Pause and Stop have an effect only between Start and the job's end.
  void Pause();
  void Stop();
  // Returns how the job has ended. Call after Advance has returned false.
  const JobEnd& end() const { return *end_; }

  // Starts the job and blocks until it has ended. `signals` must have been
  // created with `with_children` set. `next_signal` blocks until a process may
  // have ended or the given time has passed, and returns the signal that has
  // arrived, or 0.
  JobEnd Wait(SignalQueue* signals);
  JobEnd Wait(const std::function<int(absl::Duration)>& next_signal);

  // Returns the process id of each server, then of each worker. For a server or
  // worker that was restarted, returns the id of the latest process.
  std::vector<pid_t> pids() const { return members_.pids(); }

 private:
  enum class Phase { kNew, kStarting, kRunning, kDraining, kStopping, kEnded };

  void StartOthers();
  // If the process could not be started, ends the job. Returns status.ok().
  bool Started(const absl::Status& status);
  // Restarts the process that has ended and returns true, or returns false if
  // no restart is allowed.
  bool Restart(const ProcessExit& exit);
  void HandleSignal(int signal);
  // Ends the job with `end` after a checkpoint, for which server 0 has
  // `timeout`.
  void Drain(JobEnd end, absl::Duration timeout);
  void HandleExits();
  void HandleExit(const ProcessExit& exit);
  void HandleServerExit(const ProcessExit& exit);
  void HandleWorkerExit(const ProcessExit& exit);
  // Decides about the workers that have exited with 0.
  void CheckEarlyEnds();
  void Fail(const ProcessExit& exit, const std::string& prefix);
  void Tick();
  bool Finished() const;
  // Begins to stop the processes: with server 0 if a checkpoint is due.
  void EndProcesses();
  bool Drained() const;
  // Stops the remaining processes after a signal, when the servers of a failed
  // job have ended or wait for workers, or when their time is over.
  void StopRemaining();

  const JobRunnerOptions options_;
  const std::unique_ptr<ProcessControl> own_processes_;  // Null if not needed.
  ProcessControl& processes_;
  Phase phase_ = Phase::kNew;
  std::unique_ptr<CoordinatorClient> coordinator_;
  JobMessages messages_;
  JobMembers members_;
  int servers_done_ = 0;
  // Server 0 has succeeded. It awaits what the job needs of the others.
  bool job_done_ = false;
  // Workers that have exited with 0, and when.
  std::vector<std::pair<ProcessExit, absl::Time>> early_ends_;
  // Set as soon as it is decided how the job ends.
  absl::optional<JobEnd> end_;
  bool draining_ = false;  // True once Drain was called.
  // True if a worker has failed and server 0 may still report the cause.
  bool explanation_awaited_ = false;
  bool terminated_ = false;  // True if SIGTERM was sent to all processes.
  // When server 0 must have reported its address, must have ended, or when the
  // remaining processes are stopped.
  absl::Time start_deadline_;
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  absl::Time stop_deadline_;
  absl::Time last_exit_ = absl::InfinitePast();  // Of any process.
  // When server 0 has last shown that it is busy stopping the job.
  absl::Time last_sign_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_JOB_RUNNER_H_
