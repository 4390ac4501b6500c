// Carries bytes both ways at once between processes and drops them: what an
// exchange over the same connections could reach at most.
#ifndef TRIBUTARY_DEPLOY_BENCH_BENCH_STREAM_H_
#define TRIBUTARY_DEPLOY_BENCH_BENCH_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

struct BenchStream {
  // A bare gRPC stream whose messages are the exchange's, with borrowed
  // payloads; or a bare socket, written and read in pieces of that size.
  bool grpc = true;
  // Payload of a message. Positive, a multiple of 4.
  int64_t message_bytes = 0;
  // The messages' payloads lie one behind the other in so much memory, again
  // and again. At least message_bytes.
  int64_t memory_bytes = 0;
};

// Serves every client that comes, until the process is killed: call it last.
// `address` is host:port (0: any free one) or unix-abstract:NAME. `on_ready`
// gets the address to connect to. Returns only with an error.
absl::Status ServeBenchStreams(
    const BenchStream& stream, const std::string& address,
    const std::function<void(const std::string&)>& on_ready);

struct BenchStreamCounts {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  double seconds = 0;
  // Of the whole process in this time.
  double cpu_seconds = 0;
};

// Opens a stream to each of the servers and counts the payload bytes of
// `duration`, which begins when they have flowed for a moment; `on_begin` is
// called then.
absl::StatusOr<BenchStreamCounts> RunBenchStreams(
    const BenchStream& stream, const std::vector<std::string>& addresses,
    absl::Duration duration, const std::function<void()>& on_begin);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_BENCH_STREAM_H_
