#include "worker/leaf_observer.h"

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
      last_saved_(layout->chunk_count()) {}

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
      HandOn();
    }
    return;
  }
  int first = last_saved_;
  while (first > 1 && layout_->ChunkBegin(first - 1) >= begin) --first;
  leaf_.device->Save(first, last_saved_, leaf_.arena.get());
  last_saved_ = first;
  // Those that have come by now; the device is busy with the layers before.
  while (last_chunk_ >= first && leaf_.device->Saved(last_chunk_)) HandOn();
}

void LeafObserver::Finish(double loss_sum) {
  if (leaf_.device != nullptr) {
    leaf_.device->Save(/*first=*/0, last_saved_, leaf_.arena.get());
    while (last_chunk_ > 0) {
      leaf_.device->AwaitSaved(last_chunk_);
      HandOn();
    }
    leaf_.device->AwaitSaved(/*chunk=*/0);
  }
  reducer_->ChunkReady(leaf_.number, /*chunk=*/0, std::move(leaf_.arena),
                       leaf_.weight, loss_sum);
}

void LeafObserver::HandOn() {
  reducer_->ChunkReady(leaf_.number, last_chunk_--, leaf_.arena, leaf_.weight,
                       /*loss_sum=*/0);
}

}  // namespace tributary
