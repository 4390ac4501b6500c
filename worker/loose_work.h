// A worker's work in the modes in which chunks may be at different versions:
// stale_synchronous and asynchronous.
#ifndef TRIBUTARY_WORKER_LOOSE_WORK_H_
#define TRIBUTARY_WORKER_LOOSE_WORK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "worker/work_state.h"

namespace tributary {

// Threads as WorkState.
//
// The newest version of each chunk is collected in a back arena, however often
// it is replaced before anybody looks. Between two tasks the trainer takes over
// what is new, chunk by chunk, into the front arena, which nobody else touches:
// so a task computes from weights that stay as they are, and each chunk of them
// is of one version. That is why servers never map their memory into this one,
// as in synchronous mode: nothing there would keep a chunk from being
// overwritten in the middle of a forward pass, twice even.
class LooseWork : public WorkState {
 public:
  LooseWork(const Options& options, const ArenaLayout* layout);

  absl::Status MapChunks(const MappedMemory& memory, int shard,
                         int servers) override;
  Arrival BeginWrite(int chunk, int64_t version, float** to) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  // Never waits: the task got what there was.
  bool AwaitWeights(const Task& task, int64_t begin, int64_t end) override
      ABSL_LOCKS_EXCLUDED(mu_);
  const float* Weights(int64_t version) const override;

 protected:
  int64_t CompleteVersion() const override ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Prepare(Task* task) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Chunk {
    int64_t version = -1;  // In the back arena.
    bool writing = false;  // The exchange writes the next one there.
    bool copying = false;  // The trainer copies it from there.
  };
  // Waits until nobody writes the chunk and keeps it so; its version.
  int64_t BeginCopy(int chunk) ABSL_LOCKS_EXCLUDED(mu_);
  void EndCopy(int chunk) ABSL_LOCKS_EXCLUDED(mu_);

  const PrivatePages back_;
  const PrivatePages front_;
  // Of the chunks in the front arena; the trainer's alone.
  std::vector<int64_t> front_versions_;

  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mu_);
  // How many chunks have each version.
  std::map<int64_t, int> versions_ ABSL_GUARDED_BY(mu_);
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_LOOSE_WORK_H_
