// Lets ordinary code receive signals, without signal handlers.
#ifndef TRIBUTARY_DEPLOY_FLAGS_SIGNAL_QUEUE_H_
#define TRIBUTARY_DEPLOY_FLAGS_SIGNAL_QUEUE_H_

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/shutdown.h"

namespace tributary {

// Returns true if a process that is stopping because of the signal `first` must
// end immediately when it receives the signal `second`. SIGUSR1 and SIGUSR2 are
// a scheduler's notice that SIGTERM will follow, so neither they nor a SIGTERM
// after them ends the process immediately.
bool EndsImmediately(int first, int second);

// Returns Cancelled, with the name of the signal.
absl::Status StoppedBy(int signal);

// Receives SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 for this process, and
// SIGCHLD if `with_children` is true. If `only_from_parent` is true, ignores
// the first five unless this process's parent has sent them. Construct it
// before any other thread starts: the constructor blocks these signals in the
// calling thread, and threads inherit the blocked signals from the thread that
// starts them. The signals stay blocked after destruction. Also ignores
// SIGPIPE, so that a job continues after the reader of its output has exited.
// There may be at most one instance at a time.
class SignalQueue {
 public:
  explicit SignalQueue(bool with_children = false,
                       bool only_from_parent = false);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  // Blocks until a signal arrives, and returns it. Returns 0 after `timeout`,
  // Wake, or a signal that is ignored. Only one thread at a time may call Wait.
  int Wait(absl::Duration timeout);
  // Makes the current or the next Wait return 0. Thread-safe.
  void Wake();

 private:
  const bool only_from_parent_;
  int signal_fd_ = -1;
  int wake_fd_ = -1;
};

// A thread that receives the signals of a SignalQueue. The first signal
// requests a shutdown. A later signal ends the process immediately if
// EndsImmediately is true for the first signal and the later one.
class SignalThread {
 public:
  // Both arguments must outlive this object.
  SignalThread(SignalQueue* queue, Shutdown* shutdown);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // Returns the first signal, or 0 if none has arrived. Thread-safe.
  int received() const { return received_.load(); }

 private:
  void Work();

  SignalQueue* const queue_;
  Shutdown* const shutdown_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> received_{0};
  std::thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_SIGNAL_QUEUE_H_
