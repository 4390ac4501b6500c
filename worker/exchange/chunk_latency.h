// How long chunks take from here to the servers and, as a new version, back.
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

// Thread-safe. A chunk's latency is the time from when its gradient was pushed
// (the last, where a step pushes several nodes of it) to when its next version
// is in place. Where workers need not wait for one another, that version may be
// due to somebody else's gradient.
class ChunkLatency {
 public:
  explicit ChunkLatency(int chunks) : pushed_(chunks) {}

  void Pushed(int64_t step, int chunk, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  void Arrived(int chunk, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);

  // Without the first steps, in which memory is touched for the first time.
  DurationCounts counts() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Push {
    int64_t step;
    absl::Time time;
  };

  mutable absl::Mutex mu_;
  int64_t first_step_ ABSL_GUARDED_BY(mu_) = -1;
  // By chunk: what has not come back yet, oldest first.
  std::vector<absl::InlinedVector<Push, 1>> pushed_ ABSL_GUARDED_BY(mu_);
  LatencyHistogram histogram_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_CHUNK_LATENCY_H_
