#include "worker/exchange/subtree_reducer.h"

#include <utility>

#include "common/parameters/reduction_tree.h"

namespace tributary {

SubtreeReducer::SubtreeReducer(const ArenaLayout* layout, int tree_leaves,
                               WireDtype dtype,
                               const std::vector<int64_t>& leaves,
                               std::function<void(NodeChunk)> send)
    : layout_(layout),
      tree_leaves_(tree_leaves),
      dtype_(dtype),
      send_(std::move(send)) {
  for (const int node : MaximalSubtreesOf(leaves, tree_leaves)) {
    tops_.insert(node);
  }
}

void SubtreeReducer::ChunkReady(int leaf, int chunk, Buffer arena,
                                int64_t sample_count, double loss_sum) {
  NodeReady(
      {tree_leaves_ + leaf, chunk, std::move(arena), sample_count, loss_sum});
}

void SubtreeReducer::NodeReady(NodeChunk sum) {
  const int chunk = sum.chunk;
  const int64_t begin = layout_->ChunkBegin(chunk);
  while (tops_.count(sum.node) == 0) {
    NodeChunk sibling;
    {
      absl::MutexLock lock(&mu_);
      const auto found = waiting_.find({chunk, sum.node ^ 1});
      if (found == waiting_.end()) {
        const std::pair<int, int> key = {chunk, sum.node};
        waiting_.emplace(key, std::move(sum));
        return;
      }
      sibling = std::move(found->second);
      waiting_.erase(found);
    }
    // Add into the sibling's arena, which is already in use, and free this one
    // for the next micro-batch. Addition is commutative, so the bits do not
    // change.
    const auto add = sum.node >= tree_leaves_ ? RoundAndAdd : AddRounded;
    add(dtype_, sum.arena.get() + begin, sibling.arena.get() + begin,
        layout_->ChunkSize(chunk));
    sibling.sample_count += sum.sample_count;
    sibling.loss_sum += sum.loss_sum;
    sibling.node /= 2;
    sum = std::move(sibling);
  }
  send_(std::move(sum));
}

}  // namespace tributary
