// What the attempts at a job came to, one after the other.
#ifndef TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
#define TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_

#include "absl/time/time.h"

namespace tributary {

// Decides how long it makes sense to begin again, and from what. For one
// thread.
class AttemptHistory {
 public:
  // So many attempts in a row may fail to begin from what servers have in
  // memory; then the checkpoint is taken.
  static constexpr int kMostMemoryFailures = 3;

  // An attempt has ended, and the job has not. `trained`: it came as far as
  // that; `memory_failed`: it was to begin from memory, and could not. `now` is
  // of a monotonic clock.
  void Add(bool trained, bool memory_failed, absl::Time now);

  // Whether the next attempt may begin from memory.
  bool trusts_memory() const { return memory_failures_ < kMostMemoryFailures; }
  // Since when attempts have ended before anything was computed, until the last
  // one that was added.
  absl::Duration stuck() const { return last_ - stuck_since_; }

 private:
  int memory_failures_ = 0;  // In a row.
  absl::Time stuck_since_ = absl::InfiniteFuture();
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_ATTEMPT_HISTORY_H_
