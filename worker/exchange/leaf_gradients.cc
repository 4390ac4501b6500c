#include "worker/exchange/leaf_gradients.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

LeafGradients::LeafGradients(int micro_batch, int64_t sample_count,
                             Exchange* exchange, StepGradients* step,
                             DeviceArenas* device, DeviceSums* sums,
                             int64_t begin_chunk, int64_t end_chunk)
    : GradientSink(/*data=*/nullptr, sample_count),
      micro_batch_(micro_batch),
      layout_(exchange->layout()),
      first_chunk_(static_cast<int>(begin_chunk)),
      step_(step),
      chunk_memory_(exchange->chunk_memory()),
      device_(device),
      sums_(sums),
      last_chunk_(
          static_cast<int>(end_chunk < 0 ? layout_.chunk_count() : end_chunk) -
          1),
      last_added_(last_chunk_ + 1) {
  if (device == nullptr) {
    arena_ = exchange->TakeArena();
    SetData(arena_.get());
    return;
  }
  SetData(device->gradients());
  sums->BeginMicroBatch(micro_batch, sample_count, data());
  if (!sums->complete()) return;
  arena_ = exchange->TakeDeviceArena();
  if (arena_ != nullptr) {
    place_ = MemoryPlace::kPeerDevice;
  } else {
    arena_ = exchange->TakeArena();
  }
}

void LeafGradients::SetSampleCount(int64_t sample_count) {
  GradientSink::SetSampleCount(sample_count);
  if (sums_ != nullptr) sums_->SetSampleCount(sample_count);
}

absl::Status LeafGradients::SetLearningRate(double rate) {
  return step_->SetLearningRate(rate);
}

void LeafGradients::Ready(int64_t begin) {
  if (device_ == nullptr) {
    while (last_chunk_ > first_chunk_ &&
           layout_.ChunkBegin(last_chunk_) >= begin) {
      HandOn(/*loss_sum=*/0);
    }
    return;
  }
  int first = last_added_;
  while (first > first_chunk_ + 1 && layout_.ChunkBegin(first - 1) >= begin) {
    --first;
  }
  AddUp(first);
  if (!sums_->complete()) return;
  // Pass on the chunks copied so far; the device is busy with earlier layers.
  // Finish reports errors.
  while (last_chunk_ >= first && device_->Saved(last_chunk_).value_or(false)) {
    HandOn(/*loss_sum=*/0);
  }
}

absl::Status LeafGradients::Finish(LossSum loss_sum) {
  if (device_ == nullptr) {
    while (last_chunk_ >= first_chunk_) HandOn(loss_sum);
    return absl::OkStatus();
  }
  AddUp(first_chunk_);
  loss_sum = sums_->EndMicroBatch(loss_sum);
  while (sums_->complete() && last_chunk_ >= first_chunk_) {
    TRIBUTARY_RETURN_IF_ERROR(device_->AwaitSaved(last_chunk_));
    HandOn(loss_sum);
  }
  return absl::OkStatus();
}

void LeafGradients::AddUp(int first) {
  sums_->Add(first, last_added_);
  if (sums_->complete()) {
    device_->Save(first, last_added_, sums_->sum(), arena_.get(), place_);
  }
  last_added_ = first;
}

void LeafGradients::HandOn(LossSum loss_sum) {
  const int chunk = last_chunk_--;
  if (chunk > 0) loss_sum = 0;
  if (sums_ == nullptr) {
    step_->Ready({step_->NodeOf(micro_batch_), chunk,
                  chunk_memory_ == nullptr
                      ? arena_
                      : chunk_memory_->ChunkOf(arena_, chunk),
                  sample_count(), loss_sum});
  } else {
    step_->Ready(
        {sums_->node(), chunk, arena_, sums_->sample_count(), loss_sum});
  }
}

}  // namespace tributary
