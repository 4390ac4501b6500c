// How fast processes on this machine can stream bytes to one another, by the
// means that the exchange has.
#ifndef TRIBUTARY_DEPLOY_BENCH_STREAM_LIMIT_H_
#define TRIBUTARY_DEPLOY_BENCH_STREAM_LIMIT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "deploy/flags/signals.h"

namespace tributary {

struct StreamLimitOptions {
  // Bare gRPC streams; false: bare sockets.
  bool grpc = true;
  // Abstract Unix sockets; false: TCP on loopback.
  bool unix_sockets = false;
  int servers = 1;
  // Client processes; each has a stream to every server.
  int clients = 1;
  int64_t message_bytes = 1 << 20;
  // What payloads are taken from, in each process.
  int64_t memory_bytes = 64 << 20;
  double seconds = 1;
};

struct StreamLimit {
  // Payload, both ways added, over all streams.
  double bytes_per_second = 0;
  // Of all processes.
  double cpu_seconds_per_byte = 0;
};

// Starts the processes, lets bytes flow both ways at once, and stops them.
// Errors and `signals` as in RunBenchJob.
absl::StatusOr<StreamLimit> MeasureStreamLimit(
    const StreamLimitOptions& options, SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_STREAM_LIMIT_H_
