#include "worker/training/micro_batch_observer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace tributary {

void LoadWeights(const WorkState& state, const Task& task,
                 const ArenaLayout& layout, int64_t begin, int64_t end,
                 const float* on_device, DeviceArenas* device) {
  if (begin >= end) return;
  const int first = static_cast<int>(begin / layout.chunk_elements());
  const int last = static_cast<int>((end - 1) / layout.chunk_elements()) + 1;
  std::vector<DeviceArenas::Version> versions;
  versions.reserve(last - first);
  for (int chunk = first; chunk < last; ++chunk) {
    versions.push_back({task.version, state.BaseVersion(chunk)});
  }
  if (on_device != nullptr) {
    device->Load(first, versions, on_device, DeviceArenas::Memory::kDevice);
  } else {
    device->Load(first, versions, state.Weights(task.version));
  }
}

MicroBatchObserver::MicroBatchObserver(const MicroBatch& micro_batch,
                                       const ArenaLayout* layout,
                                       WorkState* state,
                                       SubtreeReducer* reducer,
                                       ComputeThreadTimer* timer)
    : micro_batch_(micro_batch),
      layout_(layout),
      state_(state),
      reducer_(reducer),
      timer_(timer),
      last_chunk_(layout->chunk_count() - 1),
      last_added_(layout->chunk_count()) {}

const float* MicroBatchObserver::weights() const {
  if (micro_batch_.device == nullptr) {
    return state_->Weights(micro_batch_.task->version);
  }
  return micro_batch_.reads_in_place ? micro_batch_.device_weights
                                     : micro_batch_.device->weights();
}

bool MicroBatchObserver::WeightsNeeded(int64_t begin, int64_t end) {
  timer_->Switch(Activity::kExchange);
  const bool copies =
      micro_batch_.device != nullptr && !micro_batch_.reads_in_place;
  const bool there = copies
                         ? LoadAsTheyArrive(begin, end)
                         : state_->AwaitWeights(*micro_batch_.task, begin, end);
  timer_->Switch(Activity::kForward);
  return there;
}

bool MicroBatchObserver::LoadAsTheyArrive(int64_t begin, int64_t end) {
  constexpr int64_t kPiece =
      DeviceArenas::kMaximumCopyBytes / int64_t{sizeof(float)};
  for (; begin < end; begin += kPiece) {
    const int64_t stop = std::min(begin + kPiece, end);
    if (!state_->AwaitWeights(*micro_batch_.task, begin, stop)) return false;
    LoadWeights(*state_, *micro_batch_.task, *layout_, begin, stop,
                micro_batch_.device_weights, micro_batch_.device);
  }
  return true;
}

void MicroBatchObserver::GradientsReady(int64_t begin) {
  if (micro_batch_.device == nullptr) {
    while (last_chunk_ > 0 && layout_->ChunkBegin(last_chunk_) >= begin) {
      HandOn(/*loss_sum=*/0);
    }
    return;
  }
  int first = last_added_;
  while (first > 1 && layout_->ChunkBegin(first - 1) >= begin) --first;
  AddUp(first);
  if (!micro_batch_.sums->complete()) return;
  // Pass on the chunks copied so far; the device is busy with earlier layers.
  // Finish reports errors.
  while (last_chunk_ >= first &&
         micro_batch_.device->Saved(last_chunk_).value_or(false)) {
    HandOn(/*loss_sum=*/0);
  }
}

absl::Status MicroBatchObserver::Finish(double loss_sum) {
  if (micro_batch_.device == nullptr) {
    while (last_chunk_ > 0) HandOn(/*loss_sum=*/0);
    HandOn(loss_sum);
    return absl::OkStatus();
  }
  AddUp(/*first=*/0);
  if (micro_batch_.sums->complete()) {
    while (last_chunk_ > 0) {
      TRIBUTARY_RETURN_IF_ERROR(micro_batch_.device->AwaitSaved(last_chunk_));
      HandOn(/*loss_sum=*/0);
    }
    TRIBUTARY_RETURN_IF_ERROR(micro_batch_.device->AwaitSaved(/*chunk=*/0));
  }
  loss_sum = micro_batch_.sums->EndMicroBatch(loss_sum);
  if (micro_batch_.sums->complete()) HandOn(loss_sum);
  return absl::OkStatus();
}

void MicroBatchObserver::AddUp(int first) {
  micro_batch_.sums->Add(first, last_added_);
  if (micro_batch_.sums->complete()) {
    micro_batch_.device->Save(first, last_added_, micro_batch_.sums->sum(),
                              micro_batch_.arena.get(), micro_batch_.memory);
  }
  last_added_ = first;
}

void MicroBatchObserver::HandOn(double loss_sum) {
  const int chunk = last_chunk_--;
  if (micro_batch_.sums == nullptr) {
    reducer_->ChunkReady(micro_batch_.number, chunk, micro_batch_.arena,
                         micro_batch_.sample_count, loss_sum);
    return;
  }
  NodeChunk sum = {micro_batch_.sums->node(), chunk, micro_batch_.arena,
                   micro_batch_.sums->sample_count(), loss_sum};
  if (micro_batch_.on_device) {
    reducer_->Send(std::move(sum));
  } else {
    reducer_->NodeReady(std::move(sum));
  }
}

}  // namespace tributary
