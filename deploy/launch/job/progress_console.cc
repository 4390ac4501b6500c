#include "deploy/launch/job/progress_console.h"

#include <poll.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/monotonic_clock.h"
#include "common/text/escape.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/job/run_report.h"

namespace tributary {
namespace {

// Returns true if a line can be written to `fd` without waiting for a reader. A
// pipe then accepts at least PIPE_BUF bytes.
bool AcceptsLine(int fd, absl::Duration patience) {
  pollfd query = {fd, POLLOUT, 0};
  return poll(&query, 1,
              static_cast<int>(absl::ToInt64Milliseconds(patience))) == 1;
}

}  // namespace

ProgressConsole::ProgressConsole(int fd, bool json)
    : fd_(fd),
      json_(json),
      display_(fd, json ? ProgressStyle::kJson : ProgressStyle::kLines,
               /*log_every_steps=*/1, kLineInterval),
      thread_([this] { WriteUntilStopped(); }) {}

ProgressConsole::~ProgressConsole() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.Join();
}

void ProgressConsole::Show(const StatusReply& status) {
  {
    absl::MutexLock lock(&mu_);
    newest_ = status;
    // A status that was not written yet is out of date.
    if (!waiting_.empty() &&
        std::holds_alternative<StatusReply>(waiting_.back())) {
      waiting_.pop_back();
    }
  }
  Push(status);
}

void ProgressConsole::Tell(const JobEvent& event) {
  if (event.severity() == JobEvent::ERROR) return;
  if (event.kind() == "checkpoint") {
    absl::MutexLock lock(&mu_);
    const absl::Time now = MonotonicNow();
    if (now - last_checkpoint_ < kCheckpointInterval) return;
    last_checkpoint_ = now;
  }
  // The text may come from a peer.
  Push(absl::StrCat(event.severity() == JobEvent::WARNING ? "warning: " : "",
                    EscapeForTerminal(event.message())));
}

void ProgressConsole::ShowResults(const std::string& directory) {
  const auto summary = ReadRunSummary(directory);
  if (!summary.ok()) return;
  StatusReply newest;
  {
    absl::MutexLock lock(&mu_);
    newest = newest_;
  }
  Push(FinalStatus(*summary, std::move(newest)));
  if (json_) return;
  const std::string report = FormatRunReport(*summary, directory);
  Push(std::string(absl::StripSuffix(report, "\n")));
}

void ProgressConsole::Push(Item item) {
  absl::MutexLock lock(&mu_);
  if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(item));
}

void ProgressConsole::WriteUntilStopped() {
  while (true) {
    Item item;
    {
      absl::MutexLock lock(&mu_);
      Await(&mu_, absl::Condition(
                      +[](ProgressConsole* self)
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
                             return !self->waiting_.empty() || self->stop_;
                           },
                      this));
      if (waiting_.empty()) return;
      item = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (AcceptsLine(fd_, kPatience)) {
      Write(item);
    } else {
      absl::MutexLock lock(&mu_);
      // The others would wait as long, one after the other.
      waiting_.clear();
    }
  }
}

void ProgressConsole::Write(const Item& item) {
  if (const auto* status = std::get_if<StatusReply>(&item)) {
    display_.Update(*status, absl::Now());
  } else {
    display_.Message(std::get<std::string>(item));
  }
}

}  // namespace tributary
