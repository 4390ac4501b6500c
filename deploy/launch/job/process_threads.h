// Runs the servers and workers of a job as threads of this process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_THREADS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_THREADS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/shutdown.h"
#include "common/base/thread.h"
#include "deploy/launch/job/process_control.h"

namespace tributary {

// Each "process" is a thread that runs ProcessSpec::body. Any signal that would
// end a process requests its shutdown. The exit code of a thread is
// kExitPreempted for Cancelled, and that of ExitCodeOf for all others. The exit
// of a thread without a log file (ProcessSpec::log_path) also has its status;
// with one, it is like the exit of a process. The destructor requests the
// shutdown of all threads and joins them. Like all ProcessControls, not
// thread-safe, except Wake.
class ProcessThreads final : public ProcessControl {
 public:
  // `wake`, if not null, is called when Wait may have something to return for,
  // by any thread. It must not block.
  explicit ProcessThreads(std::function<void()> wake = nullptr)
      : wake_(std::move(wake)) {}
  ~ProcessThreads() override;
  ProcessThreads(const ProcessThreads&) = delete;
  ProcessThreads& operator=(const ProcessThreads&) = delete;

  // Blocks until a thread has become ready or has ended, or Wake was called,
  // since the last call, but for at most `timeout`.
  void Wait(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the current or the next Wait.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the status with which the thread has ended; nullopt while it runs.
  std::optional<absl::Status> status(int process) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Never fails.
  absl::StatusOr<int> Start(const ProcessSpec& spec) override;
  absl::optional<std::string> ReadyText(int process) override
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::string> TakeWarnings(int process) override
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<ProcessExit> Reap() override ABSL_LOCKS_EXCLUDED(mu_);
  void Signal(int process, int signal) override;
  const ProcessState& state(int process) const override {
    return *members_[process];
  }
  int size() const override { return static_cast<int>(members_.size()); }

 private:
  struct Member : ProcessState {
    Shutdown shutdown;
    Thread thread;  // Joined by Reap.
    // Guarded by mu_.
    absl::optional<std::string> ready;
    std::vector<std::string> warnings;
    std::optional<absl::Status> end;
  };

  void Woken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<void()> wake_;
  std::vector<std::unique_ptr<Member>> members_;
  mutable absl::Mutex mu_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_THREADS_H_
