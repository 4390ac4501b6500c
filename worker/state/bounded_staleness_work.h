// A worker's work in the modes in which chunks may be at different versions:
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

// Threads as WorkState.
//
// The newest version of each chunk is collected in a back arena, however often
// it is replaced before anybody looks. When a task comes to a chunk for the
// first time it takes over what is there into the front arena, which nobody
// else touches: so a task computes from weights that stay as they are, each
// chunk of them of one version, and the last layers of newer ones than the
// first. That is why servers never map their memory into this one, as in
// synchronous mode: nothing there would keep a chunk from being overwritten in
// the middle of a pass, twice even.
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
  // A training task has come to the chunk: whether it should take what is
  // there, or wait until that changes.
  virtual bool ShouldTake(const Task& task, int chunk) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_) = 0;
  // A lane begins and ends to wait, at most until the time that is returned:
  // then it takes what is there.
  virtual absl::Time OnWaitBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return absl::InfiniteFuture();
  }
  virtual void OnWaitEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {}
  // The newest version of the chunk.
  int64_t VersionOf(int chunk) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return chunks_[chunk].version;
  }

 private:
  struct Chunk {
    int64_t version = -1;  // In the back arena.
    int64_t front = -1;    // Version in the front arena.
    bool writing = false;  // The exchange writes the next one to the back.
    bool copying = false;  // A lane copies it from there.
    bool taken = false;    // For the task under way.
  };
  // Takes the chunk over for the task, unless that has happened.
  bool Take(const Task& task, int chunk) ABSL_LOCKS_EXCLUDED(mu_);

  const PrivatePages back_;
  const PrivatePages front_;

  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mu_);
  // How many chunks have each version.
  std::map<int64_t, int> versions_ ABSL_GUARDED_BY(mu_);
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_BOUNDED_STALENESS_WORK_H_
