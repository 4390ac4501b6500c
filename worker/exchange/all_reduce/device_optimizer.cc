#include "worker/exchange/all_reduce/device_optimizer.h"

#include <cmath>
#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

TreeSum DeviceOptimizer::AddUp(TreeSum parts, int64_t elements,
                               bool /*whole*/) {
  std::vector<MemoryView> stack;
  for (const auto& source : parts.steps()) {
    if (source != nullptr) {
      stack.push_back(source->memory());
      continue;
    }
    const MemoryView right = std::move(stack.back());
    stack.pop_back();
    stream_.Add(right.values, elements, stack.back().values);
  }
  return TreeSum::Of(std::make_shared<GradientInMemory>(stack.back()));
}

absl::StatusOr<std::map<int, MemberOptimizer::SquareSum>>
DeviceOptimizer::EndSquareSums() {
  const std::vector<ReductionStream::GradientSum> gradients =
      std::exchange(gradients_, {});
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<double> squares,
                             stream_.SumSquares(gradients));
  std::map<int, SquareSum> sums;
  for (size_t i = 0; i < gradients.size(); ++i) {
    SquareSum& of_chunk = sums[gradients[i].chunk];
    of_chunk.value = squares[i];
    if (std::isfinite(squares[i])) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(of_chunk.nonfinite, FindNonfinite(gradients[i]));
  }
  return sums;
}

absl::StatusOr<int64_t> DeviceOptimizer::FindNonfinite(
    const ReductionStream::GradientSum& gradient) {
  const int64_t elements = layout_.ChunkSize(gradient.chunk);
  const Buffer values = AllocateBuffer(elements);
  TRIBUTARY_RETURN_IF_ERROR(
      stream_.CopyOut(gradient.sum, elements, values.get()));
  return TreeSum::Of(std::make_shared<GradientInMemory>(
                         MemoryView{values.get(), values}))
      .FindNonfinite(elements)
      .element;
}

absl::Status DeviceOptimizer::Update(const Step& step,
                                     absl::Span<const WeightsUpdate> updates) {
  if (recipe_.Skips(step.norm)) {
    for (const WeightsUpdate& update : updates) {
      stream_.Copy(update.weights, layout_.ChunkSize(update.chunk),
                   update.new_weights);
    }
    return absl::OkStatus();
  }
  std::vector<ReductionStream::UpdateArrays> queued;
  for (const WeightsUpdate& update : updates) {
    queued.push_back({update.chunk, Whole(*update.gradient), update.weights,
                      update.new_weights});
    if (trust_ratios() == nullptr) continue;
    queued.back().trust_ratios =
        trust_ratios()->RatiosIn(update.chunk, step.trust_ratios);
  }
  stream_.Update(optimizer_->At(At(step)), queued);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<TensorSquares>>>
DeviceOptimizer::SumTensorSquares(const Step& step,
                                  absl::Span<const WeightsUpdate> updates) {
  const OptimizerRule rule = *optimizer_->DirectionAt(step.number);
  std::vector<ReductionStream::UpdateArrays> queued;
  for (const WeightsUpdate& update : updates) {
    queued.push_back({update.chunk, Whole(*update.gradient), update.weights});
  }
  return stream_.SumTensorSquares({rule, rule, At(step).gradient_scale},
                                  queued);
}

absl::Status DeviceOptimizer::CopyState(const float* weights,
                                        const Snapshot::Chunk& to) {
  TRIBUTARY_RETURN_IF_ERROR(
      stream_.CopyOut(weights, to.elements, to.values.get()));
  for (int i = 0; i < slots(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(stream_.CopyOut(stream_.slot(to.number, i),
                                              to.elements, to.slots[i].get()));
  }
  return absl::OkStatus();
}

void DeviceOptimizer::Restore(const Snapshot::Chunk& chunk) {
  for (int i = 0; i < slots(); ++i) {
    float* const slot = stream_.slot(chunk.number, i);
    if (slot == nullptr) continue;
    stream_.CopyIn(chunk.slots[i].get(), chunk.elements, slot);
  }
}

}  // namespace tributary
