#include "deploy/tools/bench/stream_limit.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/temporary_directory.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/tools/bench/bench_run.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);

// The processes of one measurement: servers first, then clients.
class Measurement {
 public:
  Measurement(const StreamLimitOptions& options, std::string directory,
              SignalQueue* signals)
      : options_(options),
        directory_(std::move(directory)),
        signals_(signals) {}

  absl::StatusOr<StreamLimit> Run() {
    for (int i = 0; i < options_.servers; ++i) {
      TRIBUTARY_RETURN_IF_ERROR(Start({"--listen", ListenAddress(i)}));
    }
    TRIBUTARY_RETURN_IF_ERROR(AwaitReady(0));
    std::vector<std::string> connect = {"--seconds",
                                        absl::StrCat(options_.seconds)};
    for (int i = 0; i < options_.servers; ++i) {
      connect.insert(connect.end(), {"--connect", ready_[i]});
    }
    for (int i = 0; i < options_.clients; ++i) {
      TRIBUTARY_RETURN_IF_ERROR(Start(connect));
    }
    TRIBUTARY_RETURN_IF_ERROR(AwaitReady(options_.servers));
    const absl::Time begin = absl::Now();
    const double cpu = ServerCpuSeconds();
    TRIBUTARY_RETURN_IF_ERROR(AwaitOneClient());
    const double server_cpu_rate =
        (ServerCpuSeconds() - cpu) / absl::ToDoubleSeconds(absl::Now() - begin);
    TRIBUTARY_RETURN_IF_ERROR(Await(
        [this] { return supervisor_.running_count() == options_.servers; }));
    return AddUp(server_cpu_rate);
  }

 private:
  // Returns an address that is unique on this machine.
  std::string ListenAddress(int server) const {
    if (!options_.unix_sockets) return "127.0.0.1:0";
    return absl::StrCat("unix-abstract:", directory_.substr(1), "-", server);
  }

  absl::Status Start(const std::vector<std::string>& arguments) {
    const std::string name = absl::StrCat("stream-", ready_.size());
    std::vector<std::string> all = {
        "bench",      "stream",
        "--kind",     options_.grpc ? "grpc" : "socket",
        "--message",  absl::StrCat(options_.message_bytes),
        "--memory",   absl::StrCat(options_.memory_bytes),
        "--ready-fd", absl::StrCat(kReadyFd)};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ready_.emplace_back();
    return supervisor_
        .Start(OwnProcess(name, std::move(all),
                          absl::StrCat(directory_, "/", name)))
        .status();
  }

  // Waits until `done` returns true; calls it after every event.
  absl::Status Await(const std::function<bool()>& done) {
    const absl::Time deadline =
        absl::Now() + absl::Seconds(options_.seconds) + kStartTimeout;
    while (!done()) {
      if (absl::Now() > deadline) {
        return absl::DeadlineExceededError(
            "the processes of the benchmark did not answer");
      }
      const int signal = signals_->Wait(absl::Milliseconds(2));
      if (signal != 0 && signal != SIGCHLD) return StoppedBy(signal);
      for (const ProcessExit& exit : supervisor_.Reap()) {
        TRIBUTARY_RETURN_IF_ERROR(CheckExit(supervisor_, exit));
      }
    }
    return absl::OkStatus();
  }

  // Waits until all processes from `first` on are ready.
  absl::Status AwaitReady(int first) {
    return Await([this, first] {
      bool all = true;
      for (int i = first; i < static_cast<int>(ready_.size()); ++i) {
        if (!ready_[i].empty()) continue;
        ready_[i] = supervisor_.ReadyText(i).value_or("");
        all = all && !ready_[i].empty();
      }
      return all;
    });
  }

  absl::Status AwaitOneClient() {
    const int all = supervisor_.running_count();
    return Await([this, all] { return supervisor_.running_count() < all; });
  }

  double ServerCpuSeconds() const {
    double seconds = 0;
    for (int i = 0; i < options_.servers; ++i) {
      seconds += CpuSecondsOf(supervisor_.pid(i)).value_or(0);
    }
    return seconds;
  }

  absl::StatusOr<StreamLimit> AddUp(double server_cpu_rate) const {
    StreamLimit limit;
    double cpu_rate = server_cpu_rate;
    for (int i = options_.servers; i < static_cast<int>(ready_.size()); ++i) {
      TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::json counts,
                                 ReadPrintedJson(supervisor_.spec(i).log_path));
      const double seconds = counts.value("seconds", 0.0);
      const int64_t bytes = counts.value("bytes_sent", int64_t{0}) +
                            counts.value("bytes_received", int64_t{0});
      if (bytes == 0 || seconds <= 0) {
        return absl::InternalError("no bytes came through a bare stream");
      }
      limit.bytes_per_second += static_cast<double>(bytes) / seconds;
      cpu_rate += counts.value("cpu_seconds", 0.0) / seconds;
    }
    limit.cpu_seconds_per_byte = cpu_rate / limit.bytes_per_second;
    return limit;
  }

  const StreamLimitOptions options_;
  const std::string directory_;
  SignalQueue* const signals_;
  Supervisor supervisor_;
  std::vector<std::string> ready_;  // The ready line of each process.
};

}  // namespace

absl::StatusOr<StreamLimit> MeasureStreamLimit(
    const StreamLimitOptions& options, SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TemporaryDirectory> directory,
      TemporaryDirectory::Create());
  return Measurement(options, directory->path(), signals).Run();
}

}  // namespace tributary
