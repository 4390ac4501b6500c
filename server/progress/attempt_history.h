// The outcomes of a job's attempts, in order.
#ifndef TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
#define TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_

#include "absl/time/time.h"

namespace tributary {

// Tells how long a job has made no progress, and whether the next attempt may
// begin from the in-memory replicas. Not thread-safe.
class AttemptHistory {
 public:
  // Number of attempts in a row that may fail to begin from the servers'
  // in-memory replicas. The next attempt then begins from the checkpoint.
  static constexpr int kMostMemoryFailures = 3;

  // Adds an attempt that ended before the job did. `trained` tells whether a
  // worker had received all weights, and `memory_failed` whether the attempt
  // failed to begin from the in-memory replicas. `now` is the time of the
  // monotonic clock.
  void Add(bool trained, bool memory_failed, absl::Time now);

  // Returns whether the next attempt may begin from the in-memory replicas.
  bool trusts_memory() const { return memory_failures_ < kMostMemoryFailures; }
  // Returns how long no attempt has trained: the time between the ends of the
  // first and the last attempt since the last one that trained. Negative if
  // there is no such attempt.
  absl::Duration stuck() const { return last_ - stuck_since_; }

 private:
  int memory_failures_ = 0;  // Failed attempts in a row; reset by training.
  absl::Time stuck_since_ = absl::InfiniteFuture();
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
