// Work state for the modes in which all gradients of a step stem from the same
// version: synchronous and local_steps.
#ifndef TRIBUTARY_WORKER_STATE_SYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STATE_SYNCHRONOUS_WORK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/state/fetched_chunks.h"
#include "worker/state/work_state.h"

namespace tributary {

// Keeps two consecutive versions of the weights, each in an arena, a buffer for
// the whole model. If the worker receives only some chunks, the rest of the
// arenas stays untouched and takes no memory. See WorkState for thread safety.
//
// Version v is in arena v % 2, so version v stays intact while chunks of
// version v + 1 arrive, and a micro-batch that is reassigned after a worker
// failure can still be computed. A chunk of version v + 2 proves that step v is
// complete on all servers (see UpdateEngine). Version v may therefore be
// overwritten once no task reads it. The version of the task under way is
// pinned: chunks that would replace it are parked, which means that the
// exchange keeps them until the task ends.
//
// If the chunks of a server on this host are mapped into the arenas (see
// MapChunks), the server overwrites them directly. The same proof holds: when a
// server writes version v + 2, step v is complete, so nothing that a task still
// computes from version v is needed.
//
// If the worker fetches weights, its tasks wait for the chunks that they have
// requested. The memory of the other chunks is free.
class SynchronousWork final : public WorkState {
 public:
  SynchronousWork(const Options& options, const ArenaLayout* layout);

  absl::Status MapChunks(const MappedMemory& memory, int shard,
                         int servers) override;
  absl::Status SetArenas(Buffer even, Buffer odd) override {
    own_arenas_[0] = std::move(even);
    own_arenas_[1] = std::move(odd);
    return absl::OkStatus();
  }
  Arrival BeginWrite(int chunk, int64_t version, float** to) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  bool BeginFetched(int chunk, int64_t version, float** to) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndFetched(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  bool Want(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  void Release(int chunk) override ABSL_LOCKS_EXCLUDED(mu_);
  bool AwaitWeights(const Task& task, int64_t begin, int64_t end) override
      ABSL_LOCKS_EXCLUDED(mu_);
  const float* Weights(int64_t version) const override {
    return Arena(version);
  }
  std::vector<absl::Span<char>> WeightMemory() const override;

 private:
  // The contents of one arena.
  struct Slot {
    int64_t version = -1;
    int present = 0;              // Number of chunks at `version`.
    std::vector<int64_t> chunks;  // Version of each chunk, or -1.
  };

  int64_t CompleteVersion() const override ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool Holds(int64_t version) const override ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool DecideTraining(int64_t version, Task* task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool MustGiveUp(const Task& task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool OnTaskEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnTaskBegin(const Task& task) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if a task may read version `version` of all chunks in [first,
  // last).
  bool HasRange(int64_t version, int first, int last) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  // Frees the pages of the chunk in both arenas.
  void DropChunk(int chunk) const;
  // Returns the number of bytes of every chunk but the last.
  int64_t ChunkBytes() const;
  // Calls PrivatePages::Populate for the received chunks that are not mapped.
  void PopulateUnmapped() const;

  // Returns the arena of this version.
  float* Arena(int64_t version) const {
    const Buffer& own = own_arenas_[version % 2];
    return own != nullptr
               ? own.get()
               : reinterpret_cast<float*>(arenas_[version % 2].data());
  }

  const int chunk_count_;  // Number of chunks that the worker receives.
  const PrivatePages arenas_[2];
  Buffer own_arenas_[2];  // See SetArenas. Null: arenas_ are in use.
  // True for each chunk that a server's connection has mapped into the arenas.
  // The connections' threads set their own elements before version 0 is
  // complete.
  std::vector<char> mapped_;

  Slot slots_[2] ABSL_GUARDED_BY(mu_);
  FetchedChunks fetched_ ABSL_GUARDED_BY(mu_);
  // The version that the task under way reads, so that it must not be
  // overwritten; -1 if there is none.
  int64_t pinned_ ABSL_GUARDED_BY(mu_) = -1;
  // True if a chunk is parked until the task under way ends. The arrival of
  // that chunk proves that the step of the task is complete.
  bool parked_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_SYNCHRONOUS_WORK_H_
