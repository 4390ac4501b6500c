// Base class of the work states in which chunks may be at different versions:
// stale_synchronous and asynchronous.
#ifndef TRIBUTARY_WORKER_STATE_BOUNDED_STALENESS_WORK_H_
#define TRIBUTARY_WORKER_STATE_BOUNDED_STALENESS_WORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "worker/state/work_state.h"

namespace tributary {

// Double-buffers the weights, so that chunks of any version may arrive at any
// time. See WorkState for thread safety.
//
// There are two arenas, which are buffers for the whole model. The exchange
// writes the newest version of each chunk (a slice of an arena) to the back
// arena. When a task first needs a chunk, it copies the chunk to the front
// arena, which only tasks access. While a task computes, its weights therefore
// do not change. Each chunk is at a single version, but later layers may be at
// newer versions than earlier ones.
//
// Server memory is never mapped here, unlike in synchronous mode, because a
// server could overwrite a mapped chunk while a task computes from it.
class BoundedStalenessWork : public WorkState {
 public:
  BoundedStalenessWork(const Options& options, const ArenaLayout* layout);

  absl::Status MapChunks(const MappedMemory& memory, int shard,
                         int servers) override;
  Arrival BeginWrite(int chunk, int64_t version, float** to) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  bool AwaitWeights(const Task& task, int64_t begin, int64_t end) override
      ABSL_LOCKS_EXCLUDED(mu_);
  const float* Weights(int64_t version) const override;
  std::vector<absl::Span<char>> WeightMemory() const override {
    return {{front_.data(), static_cast<size_t>(front_.bytes())}};
  }
  int64_t BaseVersion(int chunk) const override ABSL_LOCKS_EXCLUDED(mu_);

 protected:
  int64_t CompleteVersion() const override ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void OnTaskBegin(const Task& task) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if the training task should compute from the version of the
  // chunk that has arrived, or false if it should wait for a newer version.
  virtual bool ShouldTake(const Task& task, int chunk) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // Called when a compute thread begins and ends a wait for a newer version of
  // a chunk. OnWaitBegin returns the deadline of the wait, at which the thread
  // takes the version that has arrived.
  virtual absl::Time OnWaitBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return absl::InfiniteFuture();
  }
  virtual void OnWaitEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {}
  // Returns the newest version of the chunk that has arrived.
  int64_t VersionOf(int chunk) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return chunks_[chunk].version;
  }

 private:
  struct Chunk {
    int64_t version = -1;  // Version in the back arena.
    int64_t front = -1;    // Version in the front arena.
    bool writing = false;  // True while the exchange writes to the back arena.
    bool copying = false;  // True while a thread copies from the back arena.
    bool taken = false;    // True if the task under way has taken the chunk.
  };
  // Waits until the chunk may be taken, and copies it to the front arena unless
  // the task has already taken it. Returns false if the task must be given up.
  bool Take(const Task& task, int chunk) ABSL_LOCKS_EXCLUDED(mu_);

  const PrivatePages back_;
  const PrivatePages front_;

  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mu_);
  // The number of chunks that the back arena holds at each version, indexed by
  // version.
  std::map<int64_t, int> versions_ ABSL_GUARDED_BY(mu_);
  // True if the exchange has parked a version of a chunk, because a task is
  // copying that chunk to the front arena.
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_BOUNDED_STALENESS_WORK_H_
