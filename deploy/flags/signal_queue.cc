#include "deploy/flags/signal_queue.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "deploy/flags/exit_code.h"

namespace tributary {

bool EndsImmediately(int first, int second) {
  for (const int signal : {first, second}) {
    if (signal == SIGUSR1 || signal == SIGUSR2) return false;
  }
  return true;
}

absl::Status StoppedBy(int signal) {
  return absl::CancelledError(
      absl::StrCat("stopped by SIG", sigabbrev_np(signal)));
}

SignalQueue::SignalQueue(bool with_children, bool only_from_parent)
    : only_from_parent_(only_from_parent) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  if (with_children) sigaddset(&signals, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

SignalQueue::~SignalQueue() {
  close(signal_fd_);
  close(wake_fd_);
}

int SignalQueue::Wait(absl::Duration timeout) {
  // Rounded up, so that short waits do not spin.
  const int64_t milliseconds =
      timeout == absl::InfiniteDuration()
          ? -1
          : std::max<int64_t>(0, absl::ToInt64Milliseconds(absl::Ceil(
                                     timeout, absl::Milliseconds(1))));
  pollfd fds[] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  if (poll(fds, 2,
           static_cast<int>(std::min<int64_t>(milliseconds, 1 << 30))) <= 0) {
    return 0;
  }
  signalfd_siginfo info;
  if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    const bool ignored = only_from_parent_ && signal != SIGCHLD &&
                         static_cast<pid_t>(info.ssi_pid) != getppid();
    return ignored ? 0 : signal;
  }
  uint64_t count = 0;
  // A failed read means that another wake-up consumed the event.
  if (read(wake_fd_, &count, sizeof(count)) < 0) return 0;
  return 0;
}

void SignalQueue::Wake() {
  const uint64_t one = 1;
  // The write fails only if the counter is full, and then a wake-up is pending.
  if (write(wake_fd_, &one, sizeof(one)) < 0) return;
}

SignalThread::SignalThread(SignalQueue* queue, Shutdown* shutdown)
    : queue_(queue), shutdown_(shutdown), thread_([this] { Work(); }) {}

SignalThread::~SignalThread() {
  stopping_.store(true);
  queue_->Wake();
  thread_.join();
}

void SignalThread::Work() {
  while (!stopping_.load()) {
    const int signal = queue_->Wait(absl::InfiniteDuration());
    if (signal == 0) continue;
    const int first = received_.load();
    if (first != 0) {
      if (EndsImmediately(first, signal)) _exit(ExitCodeOfSignal(signal));
      continue;
    }
    received_.store(signal);
    shutdown_->Request();
  }
}

}  // namespace tributary
