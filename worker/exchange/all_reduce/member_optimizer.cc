#include "worker/exchange/all_reduce/member_optimizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<MemberOptimizer>> MemberOptimizer::Create(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const std::vector<int>& chunks) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  auto member = std::unique_ptr<MemberOptimizer>(
      new MemberOptimizer(job, steps, layout, std::move(optimizer)));
  BufferPool buffers(layout->chunk_elements());
  for (const int chunk : chunks) {
    std::vector<Buffer>& slots = member->slots_[chunk];
    for (int slot = 0; slot < member->optimizer_->slots(); ++slot) {
      slots.push_back(buffers.Take());
      std::memset(slots.back().get(), 0,
                  layout->ChunkSize(chunk) * sizeof(float));
    }
  }
  return member;
}

MemberOptimizer::MemberOptimizer(const JobSpec& job, int64_t steps,
                                 const ArenaLayout* layout,
                                 std::unique_ptr<Optimizer> optimizer)
    : recipe_(job, steps, StatisticsRate(job)),
      layout_(layout),
      optimizer_(std::move(optimizer)),
      slots_(layout->chunk_count()) {
  for (int chunk = 0; chunk < layout->chunk_count(); ++chunk) {
    segments_.push_back(layout->ChunkSegments(chunk));
  }
}

void MemberOptimizer::Restore(const Snapshot::Chunk& chunk) {
  const std::vector<Buffer>& slots = slots_[chunk.number];
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    std::copy_n(chunk.slots[slot].get(), chunk.elements, slots[slot].get());
  }
}

double MemberOptimizer::SumOfSquares(int chunk,
                                     const ChunkGradient& gradient) const {
  GradientSquares squares(segments_[chunk]);
  squares.Add(gradient.half, gradient.other_half, layout_->ChunkSize(chunk));
  return squares.Total();
}

void MemberOptimizer::Update(int chunk, const ChunkGradient& gradient,
                             const Step& step, const float* weights,
                             float* new_weights) {
  if (recipe_.Skips(step.norm)) {
    std::copy_n(weights, layout_->ChunkSize(chunk), new_weights);
    return;
  }
  std::vector<float*> slots;
  for (const Buffer& slot : slots_[chunk]) slots.push_back(slot.get());
  UpdateArguments update;
  update.gradient_sum = gradient.half;
  update.other_gradient_sum = gradient.other_half;
  update.weights = weights;
  update.new_weights = new_weights;
  update.slots = absl::MakeSpan(slots);
  update.segments = segments_[chunk];
  optimizer_->At(recipe_.At(step.number, step.sample_count, step.norm))
      .Update(update);
}

}  // namespace tributary
