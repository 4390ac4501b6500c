#include "worker/exchange/all_reduce/host_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/numerics/vector_ops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {
namespace {

// Adds up the parts below `node` in place. Returns the location of the sum.
float* AddUpNode(int node, int64_t count, const std::map<int, float*>& parts) {
  const auto found = parts.find(node);
  if (found != parts.end()) return found->second;
  float* const left = AddUpNode(2 * node, count, parts);
  AddInto(AddUpNode(2 * node + 1, count, parts), left, count);
  return left;
}

int64_t FirstNonfinite(const ChunkGradient& gradient, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float other =
        gradient.other_half == nullptr ? 0 : gradient.other_half[i];
    if (!std::isfinite(gradient.half[i] + other)) return i;
  }
  return 0;  // All elements are finite; only the sum of squares overflows.
}

class HostOptimizer final : public MemberOptimizer {
 public:
  HostOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                std::unique_ptr<Optimizer> optimizer)
      : recipe_(job, steps, StatisticsRate(job)),
        layout_(layout),
        optimizer_(std::move(optimizer)),
        slots_(layout->chunk_count()) {
    for (int chunk = 0; chunk < layout->chunk_count(); ++chunk) {
      segments_.push_back(layout->ChunkSegments(chunk));
    }
  }

  void AllocateState(const std::vector<int>& chunks) {
    BufferPool buffers(layout_->chunk_elements());
    for (const int chunk : chunks) {
      for (int slot = 0; slot < optimizer_->slots(); ++slot) {
        slots_[chunk].push_back(buffers.Take());
        std::memset(slots_[chunk].back().get(), 0,
                    layout_->ChunkSize(chunk) * sizeof(float));
      }
    }
  }

  ChunkGradient AddUp(int64_t count, const std::map<int, float*>& parts,
                      bool whole) override {
    if (whole || parts.count(1) > 0) return {AddUpNode(1, count, parts)};
    return {AddUpNode(2, count, parts), AddUpNode(3, count, parts)};
  }

  void BeginSquareSum(int chunk, const ChunkGradient& gradient) override {
    const int64_t count = layout_->ChunkSize(chunk);
    GradientSquares squares(segments_[chunk]);
    squares.Add(gradient.half, gradient.other_half, count);
    SquareSum& sum = square_sums_[chunk];
    sum.value = squares.Total();
    if (!std::isfinite(sum.value)) {
      sum.nonfinite = FirstNonfinite(gradient, count);
    }
  }
  absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() override {
    return std::exchange(square_sums_, {});
  }

  void Update(const Step& step,
              absl::Span<const WeightsUpdate> updates) override {
    if (recipe_.Skips(step.norm)) {
      for (const WeightsUpdate& update : updates) {
        std::copy_n(update.weights, layout_->ChunkSize(update.chunk),
                    update.new_weights);
      }
      return;
    }
    const OptimizerStep numbers =
        optimizer_->At(recipe_.At(step.number, step.sample_count, step.norm));
    for (const WeightsUpdate& update : updates) UpdateChunk(numbers, update);
  }

  std::shared_ptr<Event> Record() override { return nullptr; }

  absl::Status CopyState(const float* weights,
                         const Snapshot::Chunk& to) override {
    std::copy_n(weights, to.elements, to.values.get());
    const std::vector<Buffer>& slots = slots_[to.number];
    for (size_t i = 0; i < slots.size(); ++i) {
      std::copy_n(slots[i].get(), to.elements, to.slots[i].get());
    }
    return absl::OkStatus();
  }

  void Restore(const Snapshot::Chunk& chunk) override {
    const std::vector<Buffer>& slots = slots_[chunk.number];
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      std::copy_n(chunk.slots[slot].get(), chunk.elements, slots[slot].get());
    }
  }

  int slots() const override { return optimizer_->slots(); }

 private:
  void UpdateChunk(const OptimizerStep& numbers, const WeightsUpdate& update) {
    std::vector<float*> slots;
    for (const Buffer& slot : slots_[update.chunk]) slots.push_back(slot.get());
    UpdateArguments arguments;
    arguments.gradient_sum = update.gradient.half;
    arguments.other_gradient_sum = update.gradient.other_half;
    arguments.weights = update.weights;
    arguments.new_weights = update.new_weights;
    arguments.slots = absl::MakeSpan(slots);
    arguments.segments = segments_[update.chunk];
    numbers.Update(arguments);
  }

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  // Both vectors are indexed by chunk.
  std::vector<std::vector<ChunkSegment>> segments_;
  std::vector<std::vector<Buffer>> slots_;
  std::map<int, SquareSum> square_sums_;  // Indexed by chunk.
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemberOptimizer>> CreateHostOptimizer(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const std::vector<int>& chunks) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  auto made =
      std::make_unique<HostOptimizer>(job, steps, layout, std::move(optimizer));
  made->AllocateState(chunks);
  return made;
}

}  // namespace tributary
