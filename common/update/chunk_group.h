// Chunks that take each step together.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/update/chunk_updater.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Chunks whose steps are complete together, such as all chunks of a server.
// Different groups may be at different steps. Thread-safe.
class ChunkGroup {
 public:
  // The job has `steps` rounds.
  explicit ChunkGroup(int64_t steps) : steps_(steps) {}

  // Adds a chunk. The chunks must be added in the order of their numbers and
  // places, the first of which is 0, before any other call.
  void Add(std::unique_ptr<ChunkUpdater> chunk) {
    chunks_.push_back(std::move(chunk));
  }
  const std::vector<std::unique_ptr<ChunkUpdater>>& chunks() const {
    return chunks_;
  }
  // Returns null if the group does not have this chunk.
  ChunkUpdater* Find(int number) const;

  // Returns the oldest of the chunks' versions, which is the number of steps
  // that were applied to all chunks. Returns -1 if some chunk has no version,
  // and the job's number of steps if the group has no chunks.
  int64_t CompleteVersion() const;
  // Returns a micro-batch that the oldest of the chunks waits for; nullopt if
  // it waits for none, or if steps have no order.
  std::optional<MissingWork> FindMissingWork() const;

 private:
  const int64_t steps_;
  std::vector<std::unique_ptr<ChunkUpdater>> chunks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_
