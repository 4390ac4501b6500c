// The log of one process: lines on stderr, in a file, or both.
#ifndef TRIBUTARY_COMMON_OS_LOG_H_
#define TRIBUTARY_COMMON_OS_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tributary {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error", in any case; InvalidArgument names
// them for anything else.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);

struct LogOptions {
  // Lines below it are dropped.
  LogLevel level = LogLevel::kInfo;
  // One JSON object per line (ts, level, msg, role, rank, host, pid) in place
  // of text.
  bool json = false;
  // What the process is: "server", "worker" or "launcher".
  std::string role;
  // Rank of a worker, shard of a server; -1: none, or not known yet.
  int rank = -1;
  bool standard_error = true;
  // Lines are appended to this file; its folder is made. Empty: no file.
  std::string file;
  // The messages of warnings and errors are also written to this descriptor,
  // one a line, in text, for the process that started this one: a full disk
  // does not keep them from it. It must not block; what does not fit is left
  // out. -1: none.
  int warning_fd = -1;
};

// Owned by main and passed to who needs it; any thread may write. Each line is
// handed to the system before Write returns, so a crash loses none. A full disk
// loses lines, never more.
//   log->Info("step %d: loss %.4f", step, loss);
class Logger {
 public:
  // Error if the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<Logger>> Create(
      const LogOptions& options);

  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // For lines from now on.
  void SetRank(int rank);

  bool Enabled(LogLevel level) const { return level >= level_; }

  // A control character in `message` (which may come from a peer) is written
  // as an escape, so that one message is one line.
  void Write(LogLevel level, absl::string_view message);

  template <typename... Args>
  void Debug(const absl::FormatSpec<Args...>& format, const Args&... args) {
    if (Enabled(LogLevel::kDebug)) {
      Write(LogLevel::kDebug, absl::StrFormat(format, args...));
    }
  }
  template <typename... Args>
  void Info(const absl::FormatSpec<Args...>& format, const Args&... args) {
    if (Enabled(LogLevel::kInfo)) {
      Write(LogLevel::kInfo, absl::StrFormat(format, args...));
    }
  }
  template <typename... Args>
  void Warning(const absl::FormatSpec<Args...>& format, const Args&... args) {
    if (Enabled(LogLevel::kWarning)) {
      Write(LogLevel::kWarning, absl::StrFormat(format, args...));
    }
  }
  template <typename... Args>
  void Error(const absl::FormatSpec<Args...>& format, const Args&... args) {
    Write(LogLevel::kError, absl::StrFormat(format, args...));
  }

 private:
  // spdlog's logger; its headers stay out of ours.
  struct Sinks;

  Logger(const LogOptions& options, std::unique_ptr<Sinks> sinks);

  const LogLevel level_;
  const int warning_fd_;
  const std::unique_ptr<Sinks> sinks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LOG_H_
