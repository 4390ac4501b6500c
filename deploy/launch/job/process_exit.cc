#include "deploy/launch/job/process_exit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/text/escape.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

// Number of bytes at the end of a log that are searched for an error.
constexpr int64_t kLogTailBytes = 64 << 10;
// See LastWordsIn.
constexpr size_t kMostLastWords = 300;
// The exit code of a shell that does not find the program to run.
constexpr int kNotFoundByShell = 127;

// Returns the end of a log, from byte `begin` at the earliest.
std::string TailOf(const std::string& log_path, int64_t begin) {
  std::ifstream file(log_path, std::ios::binary | std::ios::ate);
  if (!file) return std::string();
  const int64_t size = file.tellg();
  begin = std::max(begin, size - kLogTailBytes);
  if (begin >= size) return std::string();
  std::string tail(size - begin, '\0');
  file.seekg(begin);
  file.read(&tail[0], static_cast<std::streamsize>(tail.size()));
  tail.resize(file.gcount());
  return tail;
}

// Like LastErrorIn, but if there is no such line, returns the last line that is
// not blank, in a form that is safe to print; at most kMostLastWords bytes of
// it.
std::string LastWordsIn(const std::string& log_path, int64_t begin) {
  std::string error = LastErrorIn(log_path, begin);
  if (!error.empty()) return error;
  std::string last;
  for (absl::string_view line : absl::StrSplit(TailOf(log_path, begin), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) last = std::string(line.substr(0, kMostLastWords));
  }
  return EscapeForTerminal(last);
}

const char* SignalAbbreviation(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "?" : name;
}

}  // namespace

bool ProcessExit::succeeded() const { return exited_with(kExitDone); }

bool ProcessExit::killed_by_signal() const { return WIFSIGNALED(wait_status); }

bool ProcessExit::exited_with(int code) const {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
}

bool ProcessExit::stopped() const {
  return killed_by_signal() || exited_with(kExitPreempted);
}

bool ProcessExit::refused() const {
  // A worker that is a thread reports the program's own error.
  return exited_with(kExitUsage) || !status.ok();
}

bool ProcessExit::crashed() const {
  if (!killed_by_signal()) return !exited_with(kExitPreempted);
  switch (WTERMSIG(wait_status)) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return false;
    default:
      return true;
  }
}

std::string ProcessExit::Describe(const std::string& log_path,
                                  int64_t begin) const {
  if (!reason.empty()) return reason;
  if (!killed_by_signal()) {
    const std::string error = LastErrorIn(log_path, begin);
    if (!error.empty()) return absl::StrCat("failed: ", error);
  }
  const std::string words =
      crashed() ? LastWordsIn(log_path, begin) : std::string();
  return absl::StrCat(DescribeExit(wait_status), words.empty() ? "" : ": ",
                      words);
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat(
        "was killed by SIG", SignalAbbreviation(signal),
        signal == SIGKILL ? " (by a user, or because memory ran out)" : "");
  }
  const int code = WEXITSTATUS(wait_status);
  return absl::StrCat("exited with code ", code,
                      code == kNotFoundByShell ? " (no such program?)" : "");
}

std::string LastErrorIn(const std::string& log_path, int64_t begin) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(TailOf(log_path, begin), '\n')) {
    if (absl::ConsumePrefix(&line, "error: ")) last = std::string(line);
  }
  return last;
}

}  // namespace tributary
