#include "worker/exchange/all_reduce/device_optimizer.h"

#include <cmath>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"

namespace tributary {
namespace {

class DeviceOptimizer final : public MemberOptimizer {
 public:
  DeviceOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                  std::unique_ptr<Optimizer> optimizer, ReductionStream* stream)
      : recipe_(job, steps, StatisticsRate(job)),
        layout_(layout),
        optimizer_(std::move(optimizer)),
        stream_(stream) {}

  ChunkGradient AddUp(int64_t count, const std::map<int, float*>& parts,
                      bool /*whole*/) override {
    return {AddUpNode(/*node=*/1, count, parts)};
  }

  void BeginSquareSum(int chunk, const ChunkGradient& gradient) override {
    gradients_.push_back({chunk, gradient.half});
  }
  absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() override {
    const std::vector<ReductionStream::GradientSum> gradients =
        std::exchange(gradients_, {});
    TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<double> squares,
                               stream_->SumSquares(gradients));
    std::map<int, SquareSum> sums;
    for (size_t i = 0; i < gradients.size(); ++i) {
      SquareSum& of_chunk = sums[gradients[i].chunk];
      of_chunk.value = squares[i];
      if (std::isfinite(squares[i])) continue;
      TRIBUTARY_ASSIGN_OR_RETURN(of_chunk.nonfinite,
                                 FirstNonfinite(gradients[i]));
    }
    return sums;
  }

  void Update(const Step& step,
              absl::Span<const WeightsUpdate> updates) override {
    if (recipe_.Skips(step.norm)) {
      for (const WeightsUpdate& update : updates) {
        stream_->Copy(update.weights, layout_->ChunkSize(update.chunk),
                      update.new_weights);
      }
      return;
    }
    std::vector<ReductionStream::UpdateArrays> queued;
    for (const WeightsUpdate& update : updates) {
      queued.push_back({update.chunk, update.gradient.half, update.weights,
                        update.new_weights});
    }
    stream_->Update(
        optimizer_->At(recipe_.At(step.number, step.sample_count, step.norm)),
        queued);
  }

  std::shared_ptr<Event> Record() override { return stream_->Record(); }

  absl::Status CopyState(const float* weights,
                         const Snapshot::Chunk& to) override {
    TRIBUTARY_RETURN_IF_ERROR(
        stream_->CopyOut(weights, to.elements, to.values.get()));
    for (int i = 0; i < slots(); ++i) {
      TRIBUTARY_RETURN_IF_ERROR(stream_->CopyOut(
          stream_->slot(to.number, i), to.elements, to.slots[i].get()));
    }
    return absl::OkStatus();
  }

  void Restore(const Snapshot::Chunk& chunk) override {
    for (int i = 0; i < slots(); ++i) {
      float* const slot = stream_->slot(chunk.number, i);
      if (slot == nullptr) continue;
      stream_->CopyIn(chunk.slots[i].get(), chunk.elements, slot);
    }
  }

  int slots() const override { return optimizer_->slots(); }

 private:
  float* AddUpNode(int node, int64_t count,
                   const std::map<int, float*>& parts) {
    const auto found = parts.find(node);
    if (found != parts.end()) return found->second;
    float* const left = AddUpNode(2 * node, count, parts);
    stream_->Add(AddUpNode(2 * node + 1, count, parts), count, left);
    return left;
  }

  // Searches on the host: the result is part of a warning or an error.
  absl::StatusOr<int64_t> FirstNonfinite(
      const ReductionStream::GradientSum& gradient) {
    std::vector<float> values(layout_->ChunkSize(gradient.chunk));
    TRIBUTARY_RETURN_IF_ERROR(stream_->CopyOut(
        gradient.sum, static_cast<int64_t>(values.size()), values.data()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) return static_cast<int64_t>(i);
    }
    return 0;  // All elements are finite; only the sum of squares overflows.
  }

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  ReductionStream* const stream_;
  // The gradients whose squares are to be summed.
  std::vector<ReductionStream::GradientSum> gradients_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemberOptimizer>> CreateDeviceOptimizer(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    ReductionStream* stream) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  return std::make_unique<DeviceOptimizer>(job, steps, layout,
                                           std::move(optimizer), stream);
}

}  // namespace tributary
