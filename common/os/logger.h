// The log of one process, written to stderr, to a file, or to both.
#ifndef TRIBUTARY_COMMON_OS_LOGGER_H_
#define TRIBUTARY_COMMON_OS_LOGGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

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
  // Receives the same lines, whole, if the runner of the job is in this
  // process. Must not block. May be null.
  std::function<void(absl::string_view)> on_warning;
};

// Lines that a process passes to its launcher with Logger::Notify. The first
// says that the process is past its start: a worker has completed a step, a
// server has weights. With the second, server 0 says that it is still busy
// stopping the job.
inline constexpr char kStepNotice[] = "notice: completed a step";
inline constexpr char kStoppingNotice[] = "notice: stopping the job";

// Writes log lines, in the order of the calls. Owned by main, which passes it
// to the classes that log. Thread-safe. Each line reaches the kernel before
// Write returns, so a crash of the process loses no line. If the disk is full,
// log lines are lost, but nothing else fails.
//   log->Info("step %d: loss %.4f", step, loss);
//
// Write and the functions that call it block while the disk, or the reader of
// stderr, does not respond. Reactions of gRPC, and code that holds a lock such
// as Coordinator::mu_, must call WriteLater instead.
class Logger {
 public:
  // Returns Unavailable, with the reason, if the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<Logger>> Create(
      const LogOptions& options);

  // Writes all lines that WriteLater has queued.
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Sets the rank of all later lines.
  void SetRank(int rank);

  bool Enabled(LogLevel level) const { return level >= level_; }

  // Writes `message` as one line if Enabled(level). Escapes control characters
  // in it, because the text may come from a peer.
  void Write(LogLevel level, absl::string_view message)
      ABSL_LOCKS_EXCLUDED(writing_mu_, mu_);

  // Largest number of lines that wait to be written.
  static constexpr size_t kMostWaiting = 1024;

  // Like Write, but queues the line and returns without waiting for the disk.
  // The line is written by a thread of this object as soon as the disk allows,
  // or by the next call of Write, Flush or the destructor. It is lost only if
  // the process crashes or calls _exit before that, or if kMostWaiting lines
  // are waiting; a later warning then says how many lines were lost.
  void WriteLater(LogLevel level, absl::string_view message)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until all lines that WriteLater has queued are written. Required
  // only before the process ends without destroying this object.
  void Flush() ABSL_LOCKS_EXCLUDED(writing_mu_, mu_);

  // Passes `notice`, a line that is not a log line, only to
  // LogOptions::warning_fd and on_warning, if they are set. Never blocks.
  void Notify(absl::string_view notice) const;

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
  // spdlog's loggers, defined in logger.cc so that this header need not include
  // spdlog's headers.
  struct Sinks;
  struct Line {
    LogLevel level = LogLevel::kInfo;
    absl::Time time;
    std::string message;
  };

  Logger(const LogOptions& options, std::unique_ptr<Sinks> sinks);

  // Returns the line for `message`, which it also passes to `warning_fd_` if
  // that is required.
  Line MakeLine(LogLevel level, absl::string_view message);
  void WriteLine(const Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_mu_);
  // Writes the waiting lines, and then the warning about lost lines, if any.
  void WriteWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_mu_)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The body of `thread_`.
  void WriteUntilStopped() ABSL_LOCKS_EXCLUDED(writing_mu_, mu_);

  const LogLevel level_;
  const int warning_fd_;
  const std::function<void(absl::string_view)> on_warning_;
  const std::unique_ptr<Sinks> sinks_;
  // Held while lines are written. Acquired before mu_.
  absl::Mutex writing_mu_;
  // Held only for short accesses to the fields below.
  absl::Mutex mu_;
  // Lines that WriteLater has queued, including the one that is being written.
  // Only a thread that holds writing_mu_ removes lines.
  std::deque<Line> waiting_ ABSL_GUARDED_BY(mu_);
  // Lines that were lost since the last warning about lost lines.
  int64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  // Writes the waiting lines. Started by the first call of WriteLater. Not a
  // Thread of common/base, because a log may outlive a simulation.
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LOGGER_H_
