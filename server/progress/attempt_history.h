// The outcomes of a job's attempts, in order.
#ifndef TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
#define TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_

#include "absl/time/time.h"

namespace tributary {

// Tells how long a job has made no progress, and whether the next attempt may
// begin from the in-memory replicas. Not thread-safe.
class AttemptHistory {
 public:
  // After this many attempts have failed to begin from the servers' in-memory
  // replicas, the next attempt begins from the newest checkpoint. An attempt
  // that trains resets the count.
  static constexpr int kMostMemoryFailures = 3;

  // Adds an attempt (one run of the protocol) that ended before the job did.
  // `trained` is true if a worker had received all weights. `memory_failed` is
  // true if the attempt failed to begin from the in-memory replicas. `now` is
  // the time at which the attempt ended, on the monotonic clock.
  void Add(bool trained, bool memory_failed, absl::Time now);

  // Returns true if the next attempt may begin from the in-memory replicas.
  bool trusts_memory() const { return memory_failures_ < kMostMemoryFailures; }
  // Returns how long the job has been stuck: the time from the end of the first
  // to the end of the last attempt in the latest series of attempts that did
  // not train. Negative if the newest attempt trained, or if there was no
  // attempt.
  absl::Duration stuck() const { return last_ - stuck_since_; }

 private:
  // Number of attempts that failed to begin from the in-memory replicas since
  // the last attempt that trained.
  int memory_failures_ = 0;
  absl::Time stuck_since_ = absl::InfiniteFuture();
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
