// Which members of an all-reduce send a chunk to which other members.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_ROUTES_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_ROUTES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/reduction_tree.h"
#include "worker/exchange/worker_chunks.h"

namespace tributary {

// The way of each chunk through an all-reduce: the members that contribute
// gradients to it, the member that reduces it, and the members that read its
// weights. If each member computes the whole model, all members contribute to
// every chunk and read it, and member c % n of n members reduces chunk c. In a
// pipeline, one worker of each replica contributes to a chunk, these
// contributors reduce their chunks in turn, and the workers of further stages
// may read a chunk. All members compute the same routes. Immutable.
class ChunkRoutes {
 public:
  // The model has `chunk_count` chunks, and a step `micro_batches`
  // micro-batches. `leaves` are the micro-batches of each member. `chunks` are
  // the chunks of each member; if it is empty, every member has all chunks.
  // Returns InvalidArgument unless each micro-batch of each chunk has exactly
  // one contributor, the contributors of each chunk are in the order of their
  // micro-batches, and all of them read the chunk.
  static absl::StatusOr<ChunkRoutes> Create(
      int chunk_count, int micro_batches, const std::vector<LeafRange>& leaves,
      const std::vector<WorkerChunks>& chunks);

  int size() const { return static_cast<int>(members_.size()); }
  int chunk_count() const { return static_cast<int>(chunks_.size()); }

  // Returns the nodes of the reduction tree whose sums the member computes.
  const std::vector<int>& NodesOf(int member) const {
    return members_[member].nodes;
  }
  // Returns the members that contribute to the chunk, in the order of their
  // micro-batches.
  const std::vector<int>& ContributorsOf(int chunk) const {
    return chunks_[chunk].contributors;
  }
  bool Contributes(int member, int chunk) const {
    return members_[member].begin <= chunk && chunk < members_[member].end;
  }
  // Returns true if the member contributes to some chunk. A stage whose
  // parameters are all in chunks of other stages contributes to none.
  bool ContributesAny(int member) const {
    return members_[member].begin < members_[member].end;
  }
  bool Reads(int member, int chunk) const {
    return members_[member].read.Contains(chunk);
  }
  // Returns the chunks that the member reads, in ascending order.
  std::vector<int> ReadBy(int member) const;
  // Returns the member that reduces the chunk, one of its contributors.
  int OwnerOf(int chunk) const { return chunks_[chunk].owner; }
  // Returns the chunks that the member reduces, in ascending order, and the
  // place of a chunk among those of its owner.
  const std::vector<int>& OwnedBy(int member) const {
    return members_[member].owned;
  }
  int PlaceOf(int chunk) const { return chunks_[chunk].place; }

  // Returns the members, possibly including this one, whose micro-batches
  // together are those of a step, and from which this member learns what it
  // must know about all of them. A member that contributes to a chunk uses the
  // contributors to its first chunk.
  const std::vector<int>& SourcesOf(int member) const {
    return ContributorsOf(ContributesAny(member) ? members_[member].begin : 0);
  }
  // Returns true if `source` is one of SourcesOf(member).
  bool IsSource(int source, int member) const;

 private:
  struct Member {
    std::vector<int> nodes;
    int begin = 0;  // Contributes to the chunks [begin, end).
    int end = 0;
    ChunkRanges read;
    std::vector<int> owned;
  };
  struct Chunk {
    std::vector<int> contributors;
    int owner = 0;
    int place = 0;
  };

  ChunkRoutes() = default;

  std::vector<Member> members_;
  std::vector<Chunk> chunks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_ROUTES_H_
