// Measures the exchange alone: real server and worker processes, and a model
// that computes nothing.
#ifndef TRIBUTARY_DEPLOY_BENCH_BENCH_EXCHANGE_H_
#define TRIBUTARY_DEPLOY_BENCH_BENCH_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/bench/stream_limit.h"
#include "deploy/flags/signals.h"
#include "proto/job.pb.h"

namespace tributary {

struct ExchangeLoad {
  int64_t parameters = int64_t{1} << 24;
  // A power of two.
  int workers = 2;
  int servers = 1;
  // Of each server. At least 1.
  int threads = 1;
  std::string device = "cpu";  // Of the servers, see AddServerDeviceFlag.
  // Values of exchange.transport and exchange.wire_dtype, in any case.
  std::string transport = "auto";
  std::string dtype = "float32";
  // A mode of exchange.parameter_server.consistency.
  std::string consistency = "synchronous";
  int64_t chunk_bytes = 1 << 20;
};

// The resolved job. InvalidArgument, naming the flag or the job's field.
absl::StatusOr<JobSpec> ExchangeJob(const ExchangeLoad& load, int64_t steps);

struct Percentiles {
  double median = 0;
  double p90 = 0;
  double p99 = 0;
};

struct ExchangeTiming {
  // What carried the bytes: "memory", "unix" or "wire".
  std::string transport;
  int64_t steps = 0;  // That count.
  Percentiles step_seconds;
  // Of a chunk, from the push of its gradient to its next version being in
  // place at the worker.
  Percentiles latency_seconds;
  // Payload over all workers in the mean of the steps. With "memory" nothing
  // moves: what would have to.
  double bytes_to_servers_per_second = 0;
  double bytes_to_workers_per_second = 0;
  // Absent if the run was too short to tell.
  absl::optional<double> worker_cpu_seconds_per_byte;
  absl::optional<double> server_cpu_seconds_per_byte;
  // What bare gRPC streams and bare sockets carried in the same minute, both
  // ways added; with "memory", what the pass alone would.
  absl::optional<StreamLimit> grpc_limit;
  absl::optional<StreamLimit> socket_limit;
  absl::optional<double> memory_limit_bytes_per_second;
};

// Takes about three times `seconds`: the exchange between two measurements of
// its limit, and starts. Errors and `signals` as in RunBenchJob.
absl::StatusOr<ExchangeTiming> TimeExchange(const ExchangeLoad& load,
                                            double seconds,
                                            SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_BENCH_EXCHANGE_H_
