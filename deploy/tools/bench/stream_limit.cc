#include "deploy/tools/bench/stream_limit.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/tools/bench/bench_processes.h"
#include "deploy/tools/bench/bench_run.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
// Short, because what a process writes to kReadyFd wakes nobody.
constexpr absl::Duration kPollInterval = absl::Milliseconds(2);

// The processes of one measurement: servers first, then clients.
class Measurement {
 public:
  Measurement(const StreamLimitOptions& options, BenchProcesses* processes)
      : options_(options), processes_(*processes) {}

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
    TRIBUTARY_RETURN_IF_ERROR(Await([this] {
      return processes_.supervisor().running_count() == options_.servers;
    }));
    return AddUp(server_cpu_rate);
  }

 private:
  // Returns an address that is unique on this machine.
  std::string ListenAddress(int server) const {
    if (!options_.unix_sockets) return "127.0.0.1:0";
    return absl::StrCat("unix-abstract:", processes_.folder().substr(1), "-",
                        server);
  }

  absl::Status Start(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {
        "bench",      "stream",
        "--kind",     options_.grpc ? "grpc" : "socket",
        "--message",  absl::StrCat(options_.message_bytes),
        "--memory",   absl::StrCat(options_.memory_bytes),
        "--ready-fd", absl::StrCat(kReadyFd)};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ready_.emplace_back();
    return processes_.Start(all);
  }

  absl::Status Await(const std::function<bool()>& done) {
    return processes_.Await(done, kPollInterval,
                            absl::Seconds(options_.seconds) + kStartTimeout);
  }

  // Waits until all processes from `first` on are ready.
  absl::Status AwaitReady(int first) {
    return Await([this, first] {
      bool all = true;
      for (int i = first; i < static_cast<int>(ready_.size()); ++i) {
        if (!ready_[i].empty()) continue;
        ready_[i] = processes_.supervisor().ReadyText(i).value_or("");
        all = all && !ready_[i].empty();
      }
      return all;
    });
  }

  absl::Status AwaitOneClient() {
    const int all = processes_.supervisor().running_count();
    return Await(
        [this, all] { return processes_.supervisor().running_count() < all; });
  }

  double ServerCpuSeconds() const {
    double seconds = 0;
    for (int i = 0; i < options_.servers; ++i) {
      seconds += CpuSecondsOf(processes_.supervisor().pid(i)).value_or(0);
    }
    return seconds;
  }

  absl::StatusOr<StreamLimit> AddUp(double server_cpu_rate) const {
    StreamLimit limit;
    double cpu_rate = server_cpu_rate;
    for (int i = options_.servers; i < static_cast<int>(ready_.size()); ++i) {
      TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::json counts,
                                 processes_.Printed(i));
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
  BenchProcesses& processes_;
  std::vector<std::string> ready_;  // The ready line of each process.
};

}  // namespace

absl::StatusOr<StreamLimit> MeasureStreamLimit(
    const StreamLimitOptions& options, SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<BenchProcesses> processes,
                             BenchProcesses::Create(signals));
  return Measurement(options, processes.get()).Run();
}

}  // namespace tributary
