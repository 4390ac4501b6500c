#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/text/counted.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/tools/bench/bench_command.h"
#include "deploy/tools/bench/bench_exchange.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr double kGiga = 1e9;

struct BenchExchangeFlags {
  ExchangeBenchLoad load;
  int64_t workers = 2;
  int64_t servers = 1;
  int64_t threads = 0;  // 0: not set.
  double seconds = 4;
  bool json = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(BenchExchangeFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "bench exchange", "",
      "Measures the exchange alone: starts real servers and workers with a "
      "model that computes nothing, and compares their throughput with the "
      "limit of this machine, measured before and after. Over sockets the "
      "limit is the throughput of bare gRPC streams and bare sockets between "
      "as many processes; in shared memory it is the pass that adds the "
      "gradients and updates the weights.",
      std::vector<CommandLine::Example>{
          {"bench exchange",
           "Measure two workers and a server, 16 M parameters."},
          {"bench exchange --transport wire --workers 1",
           "Measure TCP, as between hosts."},
          {"bench exchange --parameters 1024 --workers 1",
           "Measure the latency of a small exchange."}});
  line->AddInteger("parameters",
                   "Number of parameters of the model. Default 16777216.", 1,
                   int64_t{1} << 33, &flags->load.parameters);
  line->AddInteger("workers", "Worker processes, a power of two. Default 2.", 1,
                   64, &flags->workers);
  line->AddInteger("servers", "Server processes. Default 1.", 1, 64,
                   &flags->servers);
  line->AddInteger(
      "threads",
      "Threads of each server that sum gradients and update weights. Default: "
      "this machine's cores divided by the servers.",
      1, 256, &flags->threads);
  AddServerDeviceFlag(line.get(), "server-device", &flags->load.device);
  line->AddChoice("transport", {"auto", "memory", "unix", "wire"},
                  "Transport between processes: shared memory, Unix sockets, "
                  "or TCP (wire). Default auto: the fastest.",
                  &flags->load.transport);
  line->AddChoice("dtype", {"float32", "bfloat16", "float16"},
                  "The number format on the wire. Default float32.",
                  &flags->load.dtype);
  line->AddChoice(
      "consistency",
      {"synchronous", "stale_synchronous", "asynchronous", "local_steps"},
      "Consistency mode, with its default settings. Default synchronous.",
      &flags->load.consistency);
  line->AddInteger("chunk",
                   "Bytes of a chunk, a multiple of 64. Default 1048576.", 4096,
                   3 << 20, &flags->load.chunk_bytes);
  line->AddNumber("seconds",
                  "Seconds to exchange; the whole measurement takes about "
                  "three times as long. Default 4.",
                  0.1, 3600, &flags->seconds);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  return line;
}

// All keys are always present; null: not measured.
nlohmann::ordered_json Describe(const BenchExchangeFlags& flags,
                                const ExchangeTiming& timing) {
  const ExchangeBenchLoad& load = flags.load;
  const double both =
      timing.bytes_to_servers_per_second + timing.bytes_to_workers_per_second;
  const auto scaled = [](absl::optional<double> value,
                         double factor) -> nlohmann::ordered_json {
    if (!value.has_value()) return nullptr;
    return *value * factor;
  };
  const auto share =
      [both](absl::optional<double> limit) -> nlohmann::ordered_json {
    if (!limit.has_value()) return nullptr;
    return both / *limit;
  };
  using Limit = absl::optional<StreamLimit>;
  const auto rate = [](const Limit& limit) -> absl::optional<double> {
    if (!limit.has_value()) return absl::nullopt;
    return limit->bytes_per_second;
  };
  const auto cpu = [](const Limit& limit) -> absl::optional<double> {
    if (!limit.has_value()) return absl::nullopt;
    return limit->cpu_seconds_per_byte;
  };
  return {
      {"system", "tributary"},
      {"parameters", load.parameters},
      {"workers", load.workers},
      {"servers", load.servers},
      {"server_threads", load.threads},
      {"server_device", load.device},
      {"chunk_bytes", load.chunk_bytes},
      {"dtype", load.dtype},
      {"consistency", load.consistency},
      {"transport", timing.transport},
      {"steps", timing.steps},
      {"step_median_ms", 1e3 * timing.step_seconds.median},
      {"step_p90_ms", 1e3 * timing.step_seconds.p90},
      {"step_p99_ms", 1e3 * timing.step_seconds.p99},
      {"chunk_latency_median_us", 1e6 * timing.latency_seconds.median},
      {"chunk_latency_p90_us", 1e6 * timing.latency_seconds.p90},
      {"chunk_latency_p99_us", 1e6 * timing.latency_seconds.p99},
      {"to_servers_gb_per_s", timing.bytes_to_servers_per_second / kGiga},
      {"to_workers_gb_per_s", timing.bytes_to_workers_per_second / kGiga},
      {"gb_per_s", both / kGiga},
      {"worker_cpu_s_per_gb",
       scaled(timing.worker_cpu_seconds_per_byte, kGiga)},
      {"server_cpu_s_per_gb",
       scaled(timing.server_cpu_seconds_per_byte, kGiga)},
      {"grpc_limit_gb_per_s", scaled(rate(timing.grpc_limit), 1 / kGiga)},
      {"grpc_limit_cpu_s_per_gb", scaled(cpu(timing.grpc_limit), kGiga)},
      {"share_of_grpc_limit", share(rate(timing.grpc_limit))},
      {"socket_limit_gb_per_s", scaled(rate(timing.socket_limit), 1 / kGiga)},
      {"socket_limit_cpu_s_per_gb", scaled(cpu(timing.socket_limit), kGiga)},
      {"share_of_socket_limit", share(rate(timing.socket_limit))},
      {"memory_limit_gb_per_s",
       scaled(timing.memory_limit_bytes_per_second, 1 / kGiga)},
      {"share_of_memory_limit", share(timing.memory_limit_bytes_per_second)},
  };
}

std::string Bytes(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < 1 << 20 ? absl::StrFormat("%.4g KiB", value / (1 << 10))
                         : absl::StrFormat("%.4g MiB", value / (1 << 20));
}

std::string PercentilesRow(const char* what, const Percentiles& seconds) {
  const bool small = seconds.median < 1e-3;
  const double unit = small ? 1e6 : 1e3;
  const char* name = small ? "us" : "ms";
  return absl::StrFormat("%-15s %8.1f %s %8.1f %s %8.1f %s\n", what,
                         unit * seconds.median, name, unit * seconds.p90, name,
                         unit * seconds.p99, name);
}

std::string RateRow(const char* what, double bytes_per_second,
                    const std::string& remark = "") {
  return absl::StrFormat("%-15s %8.2f GB/s%s%s\n", what,
                         bytes_per_second / kGiga, remark.empty() ? "" : "  ",
                         remark);
}

// `rate` is the exchange's throughput in bytes per second.
std::string StreamRow(const char* what,
                      const absl::optional<StreamLimit>& limit, double rate) {
  if (!limit.has_value()) return "";
  return RateRow(
      what, limit->bytes_per_second,
      absl::StrFormat("%.3f s/GB; the exchange reaches %.0f %% of it",
                      kGiga * limit->cpu_seconds_per_byte,
                      100 * rate / limit->bytes_per_second));
}

std::string MemoryRow(absl::optional<double> limit, double rate) {
  if (!limit.has_value()) return "";
  return RateRow("sum and update", *limit,
                 absl::StrFormat("alone; the exchange reaches %.0f %% of it",
                                 100 * rate / *limit));
}

std::string CpuRow(const ExchangeTiming& timing) {
  if (!timing.worker_cpu_seconds_per_byte.has_value()) {
    return "CPU             the run was too short to measure; raise "
           "--seconds\n";
  }
  return absl::StrFormat("%-15s %8.3f s/GB in workers, %.3f s/GB in servers\n",
                         "CPU", kGiga * *timing.worker_cpu_seconds_per_byte,
                         kGiga * *timing.server_cpu_seconds_per_byte);
}

std::string Table(const ExchangeBenchLoad& load, const ExchangeTiming& timing) {
  const bool memory = timing.transport == "memory";
  const double both =
      timing.bytes_to_servers_per_second + timing.bytes_to_workers_per_second;
  const char* transport = memory                       ? "shared memory"
                          : timing.transport == "unix" ? "Unix sockets"
                                                       : "TCP";
  return absl::StrCat(
      absl::StrFormat("%d parameters (%s, in chunks of %s), %s, %s\n",
                      load.parameters, Bytes(4 * load.parameters),
                      Bytes(load.chunk_bytes), load.dtype, load.consistency),
      Counted(load.workers, "worker"), ", ", Counted(load.servers, "server"),
      " with ", Counted(load.threads, "thread"),
      load.device == "cpu" ? "" : " on a GPU", ", ", transport, ", ",
      Counted(timing.steps, "step"), "\n\n",
      absl::StrFormat("%-15s %11s %11s %11s\n", "", "median", "90 %", "99 %"),
      PercentilesRow("step", timing.step_seconds),
      PercentilesRow("chunk latency", timing.latency_seconds), "\n",
      RateRow("to the servers", timing.bytes_to_servers_per_second),
      RateRow("to the workers", timing.bytes_to_workers_per_second),
      RateRow("together", both,
              memory ? "nothing is sent; the equivalent bytes" : ""),
      CpuRow(timing), "\n", StreamRow("bare gRPC", timing.grpc_limit, both),
      StreamRow("bare sockets", timing.socket_limit, both),
      MemoryRow(timing.memory_limit_bytes_per_second, both));
}

}  // namespace

int RunBenchExchangeCommand(const std::vector<std::string>& arguments,
                            const Environment& environment) {
  BenchExchangeFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  flags.load.workers = static_cast<int>(flags.workers);
  flags.load.servers = static_cast<int>(flags.servers);
  flags.load.threads = flags.threads > 0 ? static_cast<int>(flags.threads)
                                         : ServerThreads(flags.load.servers);
  std::string remark;
  const absl::StatusOr<DeviceName> device = ChooseDevice(
      flags.load.device, /*place=*/0, ListedGpus(), &remark, "server-device");
  if (!device.ok()) return ReportError(device.status());
  flags.load.device = DeviceOfAll(flags.load.device, *device);
  SignalQueue signals(/*with_children=*/true);
  const absl::StatusOr<ExchangeTiming> timing =
      TimeExchange(flags.load, flags.seconds, &signals);
  if (!timing.ok()) return ReportError(timing.status());
  if (flags.json) {
    std::printf("%s\n", Describe(flags, *timing).dump().c_str());
  } else {
    std::fputs(Table(flags.load, *timing).c_str(), stdout);
  }
  return kExitDone;
}

}  // namespace tributary
