// Streams bytes in both directions between processes and discards them. The
// throughput is an upper bound for an exchange over the same connections.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STREAM_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

struct BenchStream {
  // True for a gRPC stream that carries messages of an exchange without copying
  // their payloads. False for a socket without gRPC, written and read in pieces
  // of `message_bytes`.
  bool grpc = true;
  // Size in bytes of the payload of a message; positive and a multiple of 4.
  int64_t message_bytes = 0;
  // Size in bytes of the memory that contains the payloads; at least
  // `message_bytes`. The payloads are sent one after another, and after the
  // last one again from the first.
  int64_t memory_bytes = 0;
};

// Serves the streams of all benchmark clients until the process is killed, so
// it returns only with an error. `address` is host:port, where port 0 selects a
// free port, or unix-abstract:NAME. Calls `on_ready` with the address to
// connect to.
absl::Status ServeBenchStreams(
    const BenchStream& stream, const std::string& address,
    const std::function<void(const std::string&)>& on_ready);

struct BenchStreamCounts {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  double seconds = 0;  // Length of the period in which bytes were counted.
  // CPU time that this process used while bytes were counted, in seconds.
  double cpu_seconds = 0;
};

// Opens a stream to each server and counts the payload bytes during `duration`,
// which begins after a short warm-up. Calls `on_begin` when `duration` begins.
// Returns an error if a stream cannot be opened or fails.
absl::StatusOr<BenchStreamCounts> RunBenchStreams(
    const BenchStream& stream, const std::vector<std::string>& addresses,
    absl::Duration duration, const std::function<void()>& on_begin);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STREAM_H_
