// The signals by which people, terminals and schedulers end a process, taken
// in ordinary code instead of in signal handlers.
#ifndef TRIBUTARY_DEPLOY_FLAGS_SIGNALS_H_
#define TRIBUTARY_DEPLOY_FLAGS_SIGNALS_H_

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "common/base/shutdown.h"

namespace tributary {

// Receives SIGINT, SIGTERM and SIGHUP (and SIGCHLD if asked to) for this
// process. Construct it before any thread is started: the signals are blocked
// in the constructing thread, and so in all that it starts later. They stay
// blocked afterwards. From then on SIGPIPE is ignored: a job does not end
// because nobody reads its output any more. One instance at a time.
class SignalQueue {
 public:
  explicit SignalQueue(bool with_children = false);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  // The next signal; 0 after `timeout` or Wake. One thread at a time.
  int Wait(absl::Duration timeout);
  // Makes the current or the next Wait return 0. Any thread.
  void Wake();

 private:
  int signal_fd_ = -1;
  int wake_fd_ = -1;
};

// Turns the first signal into a request to stop, and the second one into the
// end of the process, at once.
class SignalThread {
 public:
  // Both must outlive this object.
  SignalThread(SignalQueue* queue, Shutdown* shutdown);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // The first signal; 0: none came.
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

#endif  // TRIBUTARY_DEPLOY_FLAGS_SIGNALS_H_
