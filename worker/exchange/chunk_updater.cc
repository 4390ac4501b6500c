#include "worker/exchange/chunk_updater.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/schedule.h"
#include "common/status_macros.h"
#include "common/vector_ops.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<ChunkUpdater>> ChunkUpdater::Create(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const std::vector<int>& chunks) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  auto updater = std::unique_ptr<ChunkUpdater>(
      new ChunkUpdater(job, steps, layout, std::move(optimizer)));
  BufferPool buffers(layout->chunk_elements());
  for (const int chunk : chunks) {
    State& state = updater->states_[chunk];
    state.segments = layout->ChunkSegments(chunk);
    for (int slot = 0; slot < updater->optimizer_->slots(); ++slot) {
      state.slots.push_back(buffers.Take());
      std::memset(state.slots.back().get(), 0,
                  layout->ChunkSize(chunk) * sizeof(float));
    }
  }
  return updater;
}

ChunkUpdater::ChunkUpdater(const JobSpec& job, int64_t steps,
                           const ArenaLayout* layout,
                           std::unique_ptr<Optimizer> optimizer)
    : job_(job),
      steps_(steps),
      layout_(layout),
      optimizer_(std::move(optimizer)),
      states_(layout->chunk_count()) {}

double ChunkUpdater::SumOfSquares(int chunk,
                                  const ChunkGradient& gradient) const {
  const int64_t count = layout_->ChunkSize(chunk);
  if (gradient.other_half == nullptr) {
    return tributary::SumOfSquares(gradient.half, count);
  }
  SumOfSquaresInPieces squares;
  squares.AddSum(gradient.half, gradient.other_half, count);
  return squares.Total();
}

void ChunkUpdater::Update(int chunk, const ChunkGradient& gradient,
                          const Step& step, const float* weights,
                          float* new_weights) {
  if (job_.on_nonfinite() == JobSpec::SKIP && !std::isfinite(step.norm)) {
    std::copy_n(weights, layout_->ChunkSize(chunk), new_weights);
    return;
  }
  const State& state = states_[chunk];
  std::vector<float*> slots;
  for (const Buffer& slot : state.slots) slots.push_back(slot.get());
  UpdateArguments update;
  update.gradient_sum = gradient.half;
  update.other_gradient_sum = gradient.other_half;
  update.gradient_scale = GradientScale(std::max<int64_t>(step.weight, 1),
                                        job_.clip_norm(), step.norm);
  update.learning_rate = LearningRateAt(job_, steps_, step.number);
  update.step = step.number;
  update.weights = weights;
  update.new_weights = new_weights;
  update.slots = absl::MakeSpan(slots);
  update.segments = state.segments;
  optimizer_->Update(update);
}

}  // namespace tributary
