#include "worker/exchange/subtree_reducer.h"

#include <utility>

#include "common/parameters/reduction_tree.h"

namespace tributary {

SubtreeReducer::SubtreeReducer(const ArenaLayout* layout, int tree_leaves,
                               WireDtype dtype,
                               const std::vector<int64_t>& micro_batches,
                               std::function<void(NodeChunk)> send,
                               ReductionStream* device)
    : layout_(layout),
      tree_leaves_(tree_leaves),
      dtype_(dtype),
      send_(std::move(send)),
      device_(device) {
  for (const int node : MaximalSubtreesOf(micro_batches, tree_leaves)) {
    tops_.insert(node);
  }
}

void SubtreeReducer::ChunkReady(int micro_batch, int chunk, Buffer arena,
                                int64_t sample_count, double loss_sum) {
  NodeReady({tree_leaves_ + micro_batch, chunk, std::move(arena), sample_count,
             loss_sum});
}

void SubtreeReducer::NodeReady(NodeChunk sum) {
  const int chunk = sum.chunk;
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
    sibling.sample_count += sum.sample_count;
    sibling.loss_sum += sum.loss_sum;
    Add(std::move(sum), &sibling);
    sibling.node /= 2;
    sum = std::move(sibling);
  }
  send_(std::move(sum));
}

// Adds into the sibling's arena, which is already in use, and frees the other
// one for the next micro-batch. Addition is commutative, so the bits do not
// change.
void SubtreeReducer::Add(NodeChunk sum, NodeChunk* sibling) {
  if (device_ != nullptr) return AddOnDevice(std::move(sum), sibling);
  const int64_t begin = layout_->ChunkBegin(sum.chunk);
  const auto add = sum.node >= tree_leaves_ ? RoundAndAdd : AddRounded;
  add(dtype_, sum.arena.get() + begin, sibling->arena.get() + begin,
      layout_->ChunkSize(sum.chunk));
}

void SubtreeReducer::AddOnDevice(NodeChunk sum, NodeChunk* sibling) {
  const int64_t begin = layout_->ChunkBegin(sum.chunk);
  device_->Add(sum.arena.get() + begin, layout_->ChunkSize(sum.chunk),
               sibling->arena.get() + begin);
  sibling->ready = device_->Record();
  sibling->summands.push_back(std::move(sum.arena));
  for (Buffer& summand : sum.summands) {
    sibling->summands.push_back(std::move(summand));
  }
}

}  // namespace tributary
