// Measurement of the round trip of chunks to the servers and back.
#ifndef TRIBUTARY_WORKER_EXCHANGE_CHUNK_LATENCY_H_
#define TRIBUTARY_WORKER_EXCHANGE_CHUNK_LATENCY_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/latency_histogram.h"

namespace tributary {

// Measures the latency of chunks, which are slices of the parameters: the time
// from pushing a chunk's gradient (the last push, if a step pushes several
// sums) until the chunk's next version has been written. In modes in which
// workers do not wait for each other, that version may result from the gradient
// of a different worker.
//
// Thread-safe.
class ChunkLatency {
 public:
  explicit ChunkLatency(int chunks) : pushed_(chunks) {}

  // Records that this worker has pushed a gradient of the chunk.
  void Pushed(int64_t step, int chunk, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  // Records that a new version of the chunk has been written.
  void Arrived(int chunk, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the latencies measured so far. Excludes the first three steps,
  // which are slower because they use their memory for the first time.
  DurationCounts counts() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Push {
    int64_t step;
    absl::Time time;
  };

  mutable absl::Mutex mu_;
  int64_t first_step_ ABSL_GUARDED_BY(mu_) = -1;
  // For each chunk, the pushes that are not yet matched with an arrival, oldest
  // first. Each arrival is matched with the oldest push.
  std::vector<absl::InlinedVector<Push, 1>> pushed_ ABSL_GUARDED_BY(mu_);
  LatencyHistogram histogram_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_CHUNK_LATENCY_H_
