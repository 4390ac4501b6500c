#include "deploy/tools/bench/bench_exchange.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "deploy/launch/plan/update_pass.h"
#include "deploy/tools/bench/bench_run.h"
#include "deploy/tools/bench/stream_limit.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Number of steps that estimates the step time. The coordinator does not count
// the first three.
constexpr int64_t kProbeSteps = 6;
constexpr int64_t kLeastSteps = 8;
// Number of step times that the coordinator keeps.
constexpr int64_t kMostSteps = 4096;
// Upper bound of the memory that holds the payloads of the bare streams. It is
// the size of the model otherwise. The bound is beyond the size of all caches.
constexpr int64_t kMaxStreamMemory = 256 << 20;
// Duration of each of the two measurements of the limit, relative to the
// exchange's.
constexpr double kLimitShare = 0.5;

int64_t ModelBytes(const ExchangeBenchLoad& load) {
  return load.parameters * int64_t{sizeof(float)};
}

JobLaunch LaunchOf(const ExchangeBenchLoad& load, const JobSpec& job) {
  JobLaunch launch;
  launch.job = job;
  launch.servers = load.servers;
  launch.workers = {load.workers, load.workers};
  launch.server_threads = load.threads;
  launch.server_device = load.device;
  return launch;
}

// Returns the transport of a job whose workers sent `sent_per_step` bytes. Even
// with "memory" they send some bytes before both sides have agreed on shared
// memory.
std::string TransportOf(const ExchangeBenchLoad& load, double sent_per_step) {
  if (load.transport == "wire") return "wire";
  const bool moved =
      4 * sent_per_step > static_cast<double>(load.workers * ModelBytes(load));
  return load.transport == "unix" || moved ? "unix" : "memory";
}

// The limits of the exchange, averaged over rounds of measurements.
class ExchangeLimits {
 public:
  ExchangeLimits(const ExchangeBenchLoad& load, const JobSpec& job,
                 double seconds, SignalQueue* signals)
      : load_(load), job_(job), seconds_(seconds), signals_(signals) {}

  absl::Status Measure(const std::string& transport) {
    ++rounds_;
    // The pass alone is measured on the CPU only.
    if (transport == "memory" && load_.device != "cpu") return absl::OkStatus();
    if (transport == "memory") {
      TRIBUTARY_ASSIGN_OR_RETURN(
          const double pass,
          MeasureUpdatePass(job_, load_.workers, load_.servers * load_.threads,
                            seconds_));
      memory_ +=
          2.0 * static_cast<double>(load_.workers * ModelBytes(load_)) / pass;
      return absl::OkStatus();
    }
    StreamLimitOptions options;
    options.unix_sockets = transport == "unix";
    options.servers = load_.servers;
    options.clients = load_.workers;
    options.message_bytes = std::max<int64_t>(
        4, std::min(load_.chunk_bytes, ModelBytes(load_)) / FloatsInNumber());
    options.memory_bytes = std::min(ModelBytes(load_), kMaxStreamMemory);
    options.seconds = seconds_ / 2;
    TRIBUTARY_RETURN_IF_ERROR(AddStream(options, &grpc_));
    options.grpc = false;
    return AddStream(options, &socket_);
  }

  void Tell(ExchangeTiming* timing) const {
    const auto mean = [this](StreamLimit sum) -> absl::optional<StreamLimit> {
      if (sum.bytes_per_second == 0) return absl::nullopt;
      sum.bytes_per_second /= rounds_;
      sum.cpu_seconds_per_byte /= rounds_;
      return sum;
    };
    timing->grpc_limit = mean(grpc_);
    timing->socket_limit = mean(socket_);
    if (memory_ > 0) timing->memory_limit_bytes_per_second = memory_ / rounds_;
  }

 private:
  // Numbers on the wire that occupy as much memory as one float32.
  int64_t FloatsInNumber() const {
    return job_.exchange().wire_dtype() == ExchangeSpec::FLOAT32 ? 1 : 2;
  }

  absl::Status AddStream(const StreamLimitOptions& options, StreamLimit* sum) {
    TRIBUTARY_ASSIGN_OR_RETURN(const StreamLimit limit,
                               MeasureStreamLimit(options, signals_));
    sum->bytes_per_second += limit.bytes_per_second;
    sum->cpu_seconds_per_byte += limit.cpu_seconds_per_byte;
    return absl::OkStatus();
  }

  const ExchangeBenchLoad& load_;
  const JobSpec& job_;
  const double seconds_;
  SignalQueue* const signals_;
  int rounds_ = 0;
  StreamLimit grpc_;
  StreamLimit socket_;
  double memory_ = 0;  // Sum over all rounds, in bytes per second.
};

Percentiles ReadPercentiles(const nlohmann::json& json, double unit) {
  Percentiles percentiles;
  percentiles.median = unit * json.value("median", 0.0);
  percentiles.p90 = unit * json.value("p90", 0.0);
  percentiles.p99 = unit * json.value("p99", 0.0);
  return percentiles;
}

// Payload bytes of one step over all workers, to the servers and to the
// workers, as counted by the processes.
struct StepBytes {
  double to_servers = 0;
  double to_workers = 0;
};
StepBytes CountedBytes(const ExchangeBenchLoad& load,
                       const nlohmann::json& summary) {
  const auto steps = static_cast<double>(summary.value("steps", int64_t{1}));
  const auto model = static_cast<double>(ModelBytes(load));
  // One worker sends the initial values, and all workers receive them.
  const double sent = summary.value("bytes_sent", 0.0) - model;
  const double received =
      summary.value("bytes_received", 0.0) - load.workers * model;
  return {std::max(0.0, sent) / steps, std::max(0.0, received) / steps};
}

// Returns the bytes that a step would transfer without shared memory: one
// worker's gradient in asynchronous mode, all workers' gradients in other
// modes.
StepBytes EquivalentBytes(const ExchangeBenchLoad& load) {
  const auto model = static_cast<double>(ModelBytes(load));
  const double all = load.workers * model;
  return {load.consistency == "asynchronous" ? model : all, all};
}

ExchangeTiming Describe(const ExchangeBenchLoad& load, const BenchRun& run) {
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json step = run.summary.value("step_milliseconds", none);
  ExchangeTiming timing;
  timing.steps = step.value("count", int64_t{0});
  timing.step_seconds = ReadPercentiles(step, 1e-3);
  timing.latency_seconds = ReadPercentiles(
      run.summary.value("chunk_latency_microseconds", none), 1e-6);
  StepBytes bytes = CountedBytes(load, run.summary);
  timing.transport = TransportOf(load, bytes.to_servers);
  if (timing.transport == "memory") bytes = EquivalentBytes(load);
  const double mean_seconds = 1e-3 * step.value("mean", 0.0);
  timing.bytes_to_servers_per_second = bytes.to_servers / mean_seconds;
  timing.bytes_to_workers_per_second = bytes.to_workers / mean_seconds;
  const auto per_byte =
      [&bytes](absl::optional<double> per_step) -> absl::optional<double> {
    if (!per_step.has_value()) return absl::nullopt;
    return *per_step / (bytes.to_servers + bytes.to_workers);
  };
  timing.worker_cpu_seconds_per_byte = per_byte(run.worker_cpu_per_step);
  timing.server_cpu_seconds_per_byte = per_byte(run.server_cpu_per_step);
  return timing;
}

}  // namespace

absl::StatusOr<JobSpec> ExchangeJob(const ExchangeBenchLoad& load,
                                    int64_t steps) {
  if ((load.workers & (load.workers - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", load.workers,
                     " is not a power of two, so some workers would have twice "
                     "the work of others"));
  }
  JobSpec job;
  const std::string transport =
      load.transport == "unix" ? "unix_socket" : load.transport;
  std::vector<std::string> fields = {
      absl::StrCat("model.synthetic.parameters=", load.parameters),
      std::string("data.random={}"),
      absl::StrCat("batch.global=", load.workers),
      absl::StrCat("batch.micro_batches=", load.workers),
      // So small that no number of steps causes overflow.
      std::string("optimizer.sgd.learning_rate=1e-6"),
      absl::StrCat("steps=", steps), std::string("evaluation.disabled=true"),
      std::string("output.log_every_steps=1000"),
      std::string("checkpoint.every_steps=0"),
      std::string("name=bench-exchange"),
      absl::StrCat("exchange.transport=", transport),
      absl::StrCat("exchange.wire_dtype=", load.dtype),
      absl::StrCat("exchange.parameter_server.chunk_bytes=", load.chunk_bytes)};
  if (load.consistency != "synchronous") {
    fields.push_back(absl::StrCat("exchange.parameter_server.consistency.",
                                  load.consistency, "={}"));
  }
  for (const std::string& field : fields) {
    TRIBUTARY_RETURN_IF_ERROR(SetField(&job, field));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(job));
  return ResolveJob(job);
}

absl::StatusOr<ExchangeTiming> TimeExchange(const ExchangeBenchLoad& load,
                                            double seconds,
                                            SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec probe,
                             ExchangeJob(load, kProbeSteps));
  TRIBUTARY_ASSIGN_OR_RETURN(const BenchRun short_run,
                             RunBenchJob(LaunchOf(load, probe), signals));
  const ExchangeTiming guess = Describe(load, short_run);
  const auto steps =
      static_cast<int64_t>(seconds / std::max(1e-6, guess.step_seconds.median));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const JobSpec job,
      ExchangeJob(load, std::min(kMostSteps, std::max(kLeastSteps, steps))));
  ExchangeLimits limits(load, job, kLimitShare * seconds, signals);
  // Measured before and after the exchange, because the machine's speed drifts.
  TRIBUTARY_RETURN_IF_ERROR(limits.Measure(guess.transport));
  TRIBUTARY_ASSIGN_OR_RETURN(const BenchRun run,
                             RunBenchJob(LaunchOf(load, job), signals));
  TRIBUTARY_RETURN_IF_ERROR(limits.Measure(guess.transport));
  ExchangeTiming timing = Describe(load, run);
  limits.Tell(&timing);
  return timing;
}

}  // namespace tributary
