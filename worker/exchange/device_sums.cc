#include "worker/exchange/device_sums.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {

DeviceSums::DeviceSums(Device* device, const ArenaLayout* layout,
                       int tree_leaves, WireDtype dtype, int64_t spare_bytes)
    : device_(device),
      layout_(layout),
      tree_leaves_(tree_leaves),
      dtype_(dtype),
      spare_bytes_(spare_bytes) {}

bool DeviceSums::Allocate() {
  if (full_) return false;
  const int64_t bytes = layout_->arena_elements() * int64_t{sizeof(float)};
  const std::optional<int64_t> available = device_->AvailableMemoryBytes();
  full_ = available.has_value() && *available < bytes + spare_bytes_;
  if (full_) return false;
  absl::StatusOr<Device::Memory> memory =
      device_->Allocate(static_cast<size_t>(bytes));
  full_ = !memory.ok();
  if (full_) return false;
  arenas_.push_back(*std::move(memory));
  return true;
}

void DeviceSums::Begin(const std::vector<int64_t>& micro_batches) {
  tops_.clear();
  size_t levels = 0;
  for (const int node : MaximalSubtreesOf(micro_batches, tree_leaves_)) {
    tops_.insert(node);
    size_t height = 0;
    for (int first = node; first < tree_leaves_; first *= 2) ++height;
    levels = std::max(levels, height);
  }
  while (arenas_.size() < levels && Allocate()) {
  }
  waiting_.clear();
  free_.clear();
  for (const Device::Memory& arena : arenas_) {
    free_.push_back(static_cast<float*>(arena.get()));
  }
}

void DeviceSums::BeginMicroBatch(int micro_batch, int64_t sample_count,
                                 float* gradients) {
  node_ = tree_leaves_ + micro_batch;
  gradients_ = sum_ = gradients;
  own_sample_count_ = sample_count_ = sample_count;
  siblings_.clear();
  // A node of height h, and so its sibling, needs h arenas.
  while (tops_.count(node_) == 0 && siblings_.size() < arenas_.size()) {
    const auto sibling = waiting_.find(node_ ^ 1);
    if (sibling == waiting_.end()) {
      complete_ = false;
      if (!siblings_.empty()) return;
      sum_ = free_.back();
      free_.pop_back();
      return;
    }
    siblings_.push_back(sibling->second);
    waiting_.erase(sibling);
    sum_ = siblings_.back().arena;
    sample_count_ += siblings_.back().sample_count;
    node_ /= 2;
  }
  complete_ = true;
}

void DeviceSums::SetSampleCount(int64_t sample_count) {
  sample_count_ += sample_count - own_sample_count_;
  own_sample_count_ = sample_count;
}

void DeviceSums::Add(int first, int last) {
  if (first >= last) return;
  const int64_t begin = layout_->ChunkBegin(first);
  const int64_t count =
      layout_->ChunkBegin(last - 1) + layout_->ChunkSize(last - 1) - begin;
  const float* part = gradients_ + begin;
  for (const Waiting& sibling : siblings_) {
    device_->ops().node_sum->Add({dtype_, count, part, sibling.arena + begin});
    part = sibling.arena + begin;
  }
  if (siblings_.empty() && !complete_) {
    device_->ops().node_sum->Keep({dtype_, count, part, sum_ + begin});
  }
}

LossSum DeviceSums::EndMicroBatch(LossSum loss_sum) {
  for (const Waiting& sibling : siblings_) {
    loss_sum = sibling.loss_sum + loss_sum;
    if (sibling.arena != sum_ || complete_) free_.push_back(sibling.arena);
  }
  if (!complete_) waiting_[node_] = {sum_, sample_count_, loss_sum};
  return loss_sum;
}

}  // namespace tributary
