// Measures the exchange of gradients and weights without computation, between
// real server and worker processes whose model computes nothing.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_EXCHANGE_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/tools/bench/stream_limit.h"
#include "proto/job.pb.h"

namespace tributary {

// Describes an exchange of gradients and weights for TimeExchange: the settings
// of its job and of its processes.
struct ExchangeBenchLoad {
  int64_t parameters = int64_t{1} << 24;
  // Number of workers; must be a power of two.
  int workers = 2;
  int servers = 1;
  // Number of threads of each server; at least 1.
  int threads = 1;
  // Device of the servers, such as "cpu" or "cuda:0"; a value of the flag that
  // AddServerDeviceFlag declares.
  std::string device = "cpu";
  // `transport` is "auto", "memory", "unix" or "wire". `dtype` is a value of
  // the job's field exchange.wire_dtype, such as "float32". Both are in lower
  // case.
  std::string transport = "auto";
  std::string dtype = "float32";
  // Consistency mode of the job: the name of a field of
  // exchange.parameter_server.consistency.
  std::string consistency = "synchronous";
  int64_t chunk_bytes = 1 << 20;
};

// Returns the job for `load`, with `steps` steps, as ResolveJob returns it.
// Returns InvalidArgument, naming the flag or the field of the job, if a value
// is invalid.
absl::StatusOr<JobSpec> ExchangeJob(const ExchangeBenchLoad& load,
                                    int64_t steps);

struct Percentiles {
  double median = 0;
  double p90 = 0;
  double p99 = 0;
};

struct ExchangeTiming {
  // The transport that was used: "memory" (shared memory), "unix" (Unix
  // sockets) or "wire" (TCP).
  std::string transport;
  int64_t steps = 0;  // Number of steps after the warm-up.
  Percentiles step_seconds;
  // Latency of a chunk: the time from when a worker sends the gradient of the
  // chunk until that worker has received the next version of the chunk.
  Percentiles latency_seconds;
  // Payload bytes per second that all workers together send to the servers and
  // receive from them, averaged over the steps. If `transport` is "memory",
  // these are the bytes that would be sent without shared memory.
  double bytes_to_servers_per_second = 0;
  double bytes_to_workers_per_second = 0;
  // CPU time of all workers, and of all servers, in seconds per payload byte.
  // Absent if the run was too short to measure it.
  absl::optional<double> worker_cpu_seconds_per_byte;
  absl::optional<double> server_cpu_seconds_per_byte;
  // Upper limits of the throughput of the exchange, both directions added. Each
  // limit is the mean of two measurements, one before and one after the
  // exchange. grpc_limit and socket_limit are the throughput of gRPC streams
  // and of sockets without Tributary; they are set if `transport` is "unix" or
  // "wire". memory_limit_bytes_per_second is the throughput of adding gradients
  // and updating weights without an exchange; it is set if `transport` is
  // "memory" and the servers run on the CPU.
  absl::optional<StreamLimit> grpc_limit;
  absl::optional<StreamLimit> socket_limit;
  absl::optional<double> memory_limit_bytes_per_second;
};

// Measures the exchange for about `seconds`. Takes about three times as long in
// total, because it also starts processes and measures the upper limits of the
// throughput twice. Returns the errors of ExchangeJob, RunBenchJob and
// MeasureStreamLimit. `signals` must have been created with `with_children`
// set.
absl::StatusOr<ExchangeTiming> TimeExchange(const ExchangeBenchLoad& load,
                                            double seconds,
                                            SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_EXCHANGE_H_
