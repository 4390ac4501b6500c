// Measures the throughput between processes on this machine over the transports
// that an exchange uses.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_STREAM_LIMIT_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_STREAM_LIMIT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "deploy/flags/signal_queue.h"

namespace tributary {

struct StreamLimitOptions {
  // True to measure gRPC streams, false to measure sockets without gRPC.
  bool grpc = true;
  // True to connect through abstract Unix sockets, false through TCP on
  // loopback.
  bool unix_sockets = false;
  int servers = 1;
  // Number of client processes, each with a stream to every server.
  int clients = 1;
  int64_t message_bytes = 1 << 20;  // Size of a payload, in bytes.
  // Size in bytes of the memory in each process that contains the payloads; see
  // BenchStream.
  int64_t memory_bytes = 64 << 20;
  double seconds = 1;  // Duration of the measurement.
};

struct StreamLimit {
  // Payload bytes per second of all streams together, both directions added.
  double bytes_per_second = 0;
  // CPU time of all processes, in seconds per payload byte.
  double cpu_seconds_per_byte = 0;
};

// Measures the throughput of gRPC streams or sockets: starts the server and
// client processes, streams bytes in both directions, and stops the processes.
// Returns Cancelled if a signal arrived, DeadlineExceeded if the processes take
// over a minute longer than `options.seconds`, Aborted if one of them fails,
// and Internal if no bytes arrived. `signals` must have been created with
// `with_children` set.
absl::StatusOr<StreamLimit> MeasureStreamLimit(
    const StreamLimitOptions& options, SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_STREAM_LIMIT_H_
