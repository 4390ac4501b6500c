// The chunks of a server that wait for a thread of its pool.
#ifndef TRIBUTARY_COMMON_UPDATE_UPDATE_QUEUE_H_
#define TRIBUTARY_COMMON_UPDATE_UPDATE_QUEUE_H_

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"

namespace tributary {

// Hands chunks to the threads of a pool, in groups of chunks that are ready at
// the same time. Chunks of the first layers have priority, because the next
// forward pass needs them first. Thread-safe.
class UpdateQueue {
 public:
  struct Options {
    int most = 1;  // The largest number of chunks in a group.
    // The number of groups among which the queued chunks are divided: a group
    // has at most 1 / `streams` of them, rounded up. Does not limit how many
    // groups run at the same time; the threads of the pool do.
    int streams = 1;
    // Called on the pool for each group: sums or updates the chunks, which are
    // in ascending order and were added with the same gradient norm `norm`
    // (nullopt if there is none).
    std::function<void(const std::vector<int>& chunks,
                       std::optional<double> norm)>
        run;
    // Called on the pool when no chunk is queued and no call of `run` is in
    // progress.
    std::function<void()> on_idle;
  };
  // `pool` must outlive this object, and must be drained before this object is
  // destroyed.
  UpdateQueue(Executor* pool, Options options);

  // Adds a chunk, which must not be in the queue already. `norm` is the
  // gradient norm to pass to Options::run.
  void Add(int chunk, std::optional<double> norm) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of chunks that wait for a thread of the pool.
  int size() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return static_cast<int>(queue_.size());
  }

 private:
  void RunNext() ABSL_LOCKS_EXCLUDED(mu_);
  // Removes and returns the next group of chunks, and sets `*norm` to the norm
  // that they were added with. The group is empty if other calls took all
  // chunks.
  std::vector<int> Take(std::optional<double>* norm) ABSL_LOCKS_EXCLUDED(mu_);

  Executor* const pool_;
  const Options options_;

  mutable absl::Mutex mu_;
  // Maps a queued chunk to the norm that it was added with.
  std::map<int, std::optional<double>> queue_ ABSL_GUARDED_BY(mu_);
  // Number of chunks that are queued or running.
  int unfinished_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_UPDATE_QUEUE_H_
