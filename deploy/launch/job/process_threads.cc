#include "deploy/launch/job/process_threads.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

// Largest number of lines of a process that wait for TakeWarnings.
constexpr size_t kMostWaitingLines = 1024;

}  // namespace

ProcessThreads::~ProcessThreads() {
  SignalAll(SIGKILL);
  for (const auto& member : members_) {
    if (member->thread.joinable()) member->thread.Join();
  }
}

void ProcessThreads::Wait(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  AwaitFor(&mu_, absl::Condition(&woken_), timeout);
  woken_ = false;
}

void ProcessThreads::Wake() {
  absl::MutexLock lock(&mu_);
  Woken();
}

void ProcessThreads::Woken() {
  woken_ = true;
  if (wake_) wake_();
}

std::vector<std::string> ProcessThreads::TakeWarnings(int process) {
  absl::MutexLock lock(&mu_);
  return std::exchange(members_[process]->warnings, {});
}

std::optional<absl::Status> ProcessThreads::status(int process) const {
  absl::MutexLock lock(&mu_);
  return members_[process]->end;
}

absl::StatusOr<int> ProcessThreads::Start(const ProcessSpec& spec) {
  members_.push_back(std::make_unique<Member>());
  Member* const member = members_.back().get();
  member->spec = spec;
  member->thread = Thread([this, member] {
    ThreadContext context;
    context.shutdown = &member->shutdown;
    context.ready = [this, member](const std::string& address) {
      absl::MutexLock lock(&mu_);
      member->ready = address;
      Woken();
    };
    context.warn = [this, member](absl::string_view line) {
      absl::MutexLock lock(&mu_);
      if (member->warnings.size() < kMostWaitingLines) {
        member->warnings.emplace_back(line);
      }
    };
    absl::Status end = member->spec.body(context);
    absl::MutexLock lock(&mu_);
    member->end = std::move(end);
    Woken();
  });
  return size() - 1;
}

absl::optional<std::string> ProcessThreads::ReadyText(int process) {
  absl::MutexLock lock(&mu_);
  return members_[process]->ready;
}

std::vector<ProcessExit> ProcessThreads::Reap() {
  std::vector<ProcessExit> exits;
  for (int process = 0; process < size(); ++process) {
    Member& member = *members_[process];
    if (!running(process)) continue;
    const std::optional<absl::Status> end = status(process);
    if (!end.has_value()) continue;
    member.thread.Join();
    member.running = false;
    ProcessExit exit;
    exit.process = process;
    if (member.spec.log_path.empty()) exit.status = *end;
    const int code =
        absl::IsCancelled(*end) ? kExitPreempted : ExitCodeOf(*end);
    exit.wait_status = code << 8;  // As waitpid returns it.
    if (!end->ok()) exit.reason = absl::StrCat("failed: ", end->message());
    exits.push_back(std::move(exit));
  }
  return exits;
}

void ProcessThreads::Signal(int process, int signal) {
  if (signal != SIGCONT) members_[process]->shutdown.Request();
}

}  // namespace tributary
