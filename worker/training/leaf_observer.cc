#include "worker/training/leaf_observer.h"

#include <utility>

namespace tributary {

void LoadWeights(const WorkState& state, const Task& task,
                 const ArenaLayout& layout, int64_t begin, int64_t end,
                 DeviceArenas* device) {
  if (begin >= end) return;
  const float* const weights = state.Weights(task.version);
  for (int64_t chunk = begin / layout.chunk_elements();
       chunk <= (end - 1) / layout.chunk_elements(); ++chunk) {
    const int number = static_cast<int>(chunk);
    device->Load(number, {task.version, state.BaseVersion(number)}, weights);
  }
}

LeafObserver::LeafObserver(const Leaf& leaf, const ArenaLayout* layout,
                           WorkState* state, SubtreeReducer* reducer,
                           LaneTimer* timer)
    : leaf_(leaf),
      layout_(layout),
      state_(state),
      reducer_(reducer),
      timer_(timer),
      last_chunk_(layout->chunk_count() - 1),
      last_added_(layout->chunk_count()) {}

bool LeafObserver::WeightsNeeded(int64_t begin, int64_t end) {
  timer_->Switch(Activity::kExchange);
  const bool there = state_->AwaitWeights(*leaf_.task, begin, end);
  if (there && leaf_.device != nullptr) {
    LoadWeights(*state_, *leaf_.task, *layout_, begin, end, leaf_.device);
  }
  timer_->Switch(Activity::kForward);
  return there;
}

void LeafObserver::GradientsReady(int64_t begin) {
  if (leaf_.device == nullptr) {
    while (last_chunk_ > 0 && layout_->ChunkBegin(last_chunk_) >= begin) {
      HandOn(/*loss_sum=*/0);
    }
    return;
  }
  int first = last_added_;
  while (first > 1 && layout_->ChunkBegin(first - 1) >= begin) --first;
  AddUp(first);
  if (!leaf_.sums->complete()) return;
  // Those that have come by now; the device is busy with the layers before.
  while (last_chunk_ >= first && leaf_.device->Saved(last_chunk_)) {
    HandOn(/*loss_sum=*/0);
  }
}

void LeafObserver::Finish(double loss_sum) {
  if (leaf_.device == nullptr) {
    while (last_chunk_ > 0) HandOn(/*loss_sum=*/0);
    return HandOn(loss_sum);
  }
  AddUp(/*first=*/0);
  if (leaf_.sums->complete()) {
    while (last_chunk_ > 0) {
      leaf_.device->AwaitSaved(last_chunk_);
      HandOn(/*loss_sum=*/0);
    }
    leaf_.device->AwaitSaved(/*chunk=*/0);
  }
  loss_sum = leaf_.sums->EndLeaf(loss_sum);
  if (leaf_.sums->complete()) HandOn(loss_sum);
}

void LeafObserver::AddUp(int first) {
  leaf_.sums->Add(first, last_added_);
  if (leaf_.sums->complete()) {
    leaf_.device->Save(first, last_added_, leaf_.sums->sum(),
                       leaf_.arena.get());
  }
  last_added_ = first;
}

void LeafObserver::HandOn(double loss_sum) {
  const int chunk = last_chunk_--;
  if (leaf_.sums == nullptr) {
    reducer_->ChunkReady(leaf_.number, chunk, leaf_.arena, leaf_.weight,
                         loss_sum);
  } else {
    reducer_->NodeReady({leaf_.sums->node(), chunk, leaf_.arena,
                         leaf_.sums->weight(), loss_sum});
  }
}

}  // namespace tributary
