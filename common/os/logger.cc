#include "common/os/logger.h"

#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/os/process.h"

namespace tributary {
namespace {

constexpr absl::string_view kLevelNames[] = {"debug", "info", "warning",
                                             "error"};
constexpr spdlog::level::level_enum kSpdlogLevels[] = {
    spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
    spdlog::level::err};

absl::string_view NameOf(spdlog::level::level_enum level) {
  for (int i = 0; i < 4; ++i) {
    if (kSpdlogLevels[i] == level) return kLevelNames[i];
  }
  return "error";
}

// Formats RFC 3339, in UTC with microseconds.
std::string Timestamp(std::chrono::system_clock::time_point time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(time),
                          absl::UTCTimeZone());
}

std::string OnOneLine(absl::string_view message) {
  std::string line;
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";
    } else if (absl::ascii_iscntrl(c) && c != '\t') {
      absl::StrAppend(
          &line, "\\x",
          absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      line += c;
    }
  }
  return line;
}

// Writes a message to the process that reads `fd`. Writes of this size are
// atomic on a pipe, so lines of different threads do not mix.
void Pass(int fd, absl::string_view message) {
  std::string line = OnOneLine(message).substr(0, PIPE_BUF - 1);
  line += '\n';
  // The message is in the log too, so a failed write here is ignored.
  if (write(fd, line.data(), line.size()) < 0) return;
}

// The process that writes the log; shared by the formatters of all sinks.
struct Writer {
  bool json;
  std::string role;
  std::string host;
  std::atomic<int> rank;
};

// Formats one line of the log.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(std::shared_ptr<const Writer> writer)
      : writer_(std::move(writer)) {}

  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& line) override {
    const std::string text = writer_->json ? Json(message) : Text(message);
    line.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(writer_);
  }

 private:
  static absl::string_view Payload(const spdlog::details::log_msg& message) {
    return {message.payload.data(), message.payload.size()};
  }

  // Example: 2026-01-31T12:00:00.000000Z info worker 3: message
  std::string Text(const spdlog::details::log_msg& message) const {
    const int rank = writer_->rank;
    return absl::StrCat(Timestamp(message.time), " ", NameOf(message.level),
                        " ", writer_->role,
                        rank < 0 ? "" : absl::StrCat(" ", rank), ": ",
                        OnOneLine(Payload(message)), "\n");
  }

  std::string Json(const spdlog::details::log_msg& message) const {
    nlohmann::ordered_json object;
    object["ts"] = Timestamp(message.time);
    object["level"] = std::string(NameOf(message.level));
    object["msg"] = std::string(Payload(message));
    object["role"] = writer_->role;
    if (writer_->rank >= 0) object["rank"] = writer_->rank.load();
    object["host"] = writer_->host;
    object["pid"] = getpid();
    return object.dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace) +
           "\n";
  }

  const std::shared_ptr<const Writer> writer_;
};

}  // namespace

struct Logger::Sinks {
  std::shared_ptr<Writer> writer;
  std::unique_ptr<spdlog::logger> logger;
};

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (absl::EqualsIgnoreCase(name, kLevelNames[i])) {
      return static_cast<LogLevel>(i);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "log level: \"", name, "\" is not one of debug, info, warning, error"));
}

absl::StatusOr<std::unique_ptr<Logger>> Logger::Create(
    const LogOptions& options) {
  std::vector<spdlog::sink_ptr> list;
  if (options.standard_error) {
    list.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  }
  if (!options.file.empty()) {
    try {
      list.push_back(
          std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    } catch (const spdlog::spdlog_ex& error) {
      return absl::UnavailableError(
          absl::StrCat("cannot write the log: ", error.what()));
    }
  }
  auto sinks = std::make_unique<Sinks>();
  sinks->writer = std::make_shared<Writer>();
  sinks->writer->json = options.json;
  sinks->writer->role = options.role;
  sinks->writer->host = HostName();
  sinks->writer->rank = options.rank;
  sinks->logger =
      std::make_unique<spdlog::logger>("tributary", list.begin(), list.end());
  sinks->logger->set_formatter(std::make_unique<LineFormatter>(sinks->writer));
  sinks->logger->set_level(spdlog::level::debug);
  sinks->logger->flush_on(spdlog::level::debug);
  return std::unique_ptr<Logger>(new Logger(options, std::move(sinks)));
}

Logger::Logger(const LogOptions& options, std::unique_ptr<Sinks> sinks)
    : level_(options.level),
      warning_fd_(options.warning_fd),
      on_warning_(options.on_warning),
      sinks_(std::move(sinks)) {}

Logger::~Logger() {
  std::thread thread;
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
  Flush();
}

void Logger::SetRank(int rank) {
  Flush();
  sinks_->writer->rank = rank;
}

void Logger::Write(LogLevel level, absl::string_view message) {
  if (!Enabled(level)) return;
  const Line line = MakeLine(level, message);
  absl::MutexLock lock(&writing_mu_);
  WriteWaiting();
  WriteLine(line);
}

void Logger::WriteLater(LogLevel level, absl::string_view message) {
  if (!Enabled(level)) return;
  Line line = MakeLine(level, message);
  absl::MutexLock lock(&mu_);
  if (waiting_.size() == kMostWaiting) {
    ++lost_;
    return;
  }
  waiting_.push_back(std::move(line));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { WriteUntilStopped(); });
  }
}

void Logger::Flush() {
  absl::MutexLock lock(&writing_mu_);
  WriteWaiting();
}

void Logger::Notify(absl::string_view notice) const {
  if (warning_fd_ >= 0) Pass(warning_fd_, notice);
  if (on_warning_) on_warning_(notice);
}

Logger::Line Logger::MakeLine(LogLevel level, absl::string_view message) {
  if (level >= LogLevel::kWarning) Notify(message);
  return {level, absl::Now(), std::string(message)};
}

void Logger::WriteLine(const Line& line) {
  sinks_->logger->log(
      absl::ToChronoTime(line.time), spdlog::source_loc(),
      kSpdlogLevels[static_cast<int>(line.level)],
      spdlog::string_view_t(line.message.data(), line.message.size()));
}

void Logger::WriteWaiting() {
  int64_t lost = 0;
  // Lines that are queued meanwhile are left to the thread, so that this
  // function ends.
  size_t count = 0;
  {
    absl::MutexLock lock(&mu_);
    count = waiting_.size();
    lost = std::exchange(lost_, 0);
  }
  for (; count > 0; --count) {
    const Line* line = nullptr;
    {
      absl::MutexLock lock(&mu_);
      line = &waiting_.front();
    }
    WriteLine(*line);
    absl::MutexLock lock(&mu_);
    waiting_.pop_front();
  }
  if (lost == 0) return;
  WriteLine(MakeLine(
      LogLevel::kWarning,
      absl::StrCat("the log lacks ", lost, lost == 1 ? " line" : " lines",
                   ": it was too slow, and ", kMostWaiting,
                   " lines were waiting for it")));
}

void Logger::WriteUntilStopped() {
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stop_ || !waiting_.empty();
  };
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&ready));
      if (stop_) return;
    }
    Flush();
  }
}

}  // namespace tributary
