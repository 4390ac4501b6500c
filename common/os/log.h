// The log of one process, written to stderr, to a file, or to both.
#ifndef TRIBUTARY_COMMON_OS_LOG_H_
#define TRIBUTARY_COMMON_OS_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tributary {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Parses "debug", "info", "warning" or "error", in any case. Returns
// InvalidArgument, listing these names, for any other name.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);

struct LogOptions {
  // The lowest level that is logged.
  LogLevel level = LogLevel::kInfo;
  // If true, writes one JSON object per line (ts, level, msg, role, rank, host,
  // pid) instead of text.
  bool json = false;
  // The role of the process: "server", "worker" or "launcher".
  std::string role;
  // Rank of a worker, or number of the shard that a server holds; -1 if there
  // is none or if it is not known yet.
  int rank = -1;
  bool standard_error = true;
  // The file that lines are appended to; empty if there is none. Creates the
  // folder that contains it if necessary.
  std::string file;
  // A descriptor that also receives the messages of warnings and errors, as
  // text, one per line, for the process that started this one. They arrive even
  // when the disk is full. Must be non-blocking; messages that do not fit are
  // dropped. Messages are truncated to PIPE_BUF - 1 bytes. -1 if there is none.
  int warning_fd = -1;
};

// Writes log lines. Owned by main, which passes it to the classes that log.
// Thread-safe. Each line reaches the kernel before Write returns, so a crash of
// the process loses no line. If the disk is full, log lines are lost, but
// nothing else fails.
//   log->Info("step %d: loss %.4f", step, loss);
class Logger {
 public:
  // Returns Unavailable, with the reason, if the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<Logger>> Create(
      const LogOptions& options);

  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Sets the rank of all later lines.
  void SetRank(int rank);

  bool Enabled(LogLevel level) const { return level >= level_; }

  // Writes `message` as one line if Enabled(level). Escapes control characters
  // in it, because the text may come from a peer.
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
  // spdlog's loggers, defined in log.cc so that this header need not include
  // spdlog's headers.
  struct Sinks;

  Logger(const LogOptions& options, std::unique_ptr<Sinks> sinks);

  const LogLevel level_;
  const int warning_fd_;
  const std::unique_ptr<Sinks> sinks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LOG_H_
