// The tags of the messages between the members of an all-reduce.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_TAG_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_TAG_H_

#include <cstdint>

namespace tributary {

// The kinds of messages between members. The comment of a kind states the
// message's contents.
enum class AllReduceKind : uint64_t {
  // The gradient sum of one node of the reduction tree for one chunk, sent to
  // the member that reduces the chunk.
  kGradient,
  // The gradient sum of a chunk over all members or, with shard_optimizer, the
  // chunk's new weights.
  kReduced,
  kShare,  // A MemberShare.
  kLoss,   // LossSum: loss of a node, sent to member 0.
  // The MemberOptimizer::SquareSum of each chunk that the sender reduces.
  kSquareSums,
  // The TensorSquares of each chunk that the sender reduces.
  kTensorSquares,
};

// Returns the tag of a message. The tag contains the step number modulo 4,
// which is sufficient because only consecutive steps overlap.
inline uint64_t AllReduceTag(AllReduceKind kind, int64_t step, int chunk,
                             int node) {
  return static_cast<uint64_t>(kind) << 56 |
         static_cast<uint64_t>(step % 4) << 52 |
         static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(chunk);
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_TAG_H_
