#include "worker/training/local_sgd.h"

#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "common/numerics/flush_denormals.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<LocalSgd>> LocalSgd::Create(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const PinMemory& pin) {
  // The servers average the weights of rounds, not those of inner steps.
  OptimizerSpec inner = job.optimizer();
  inner.clear_average_decay();
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(inner));
  return std::unique_ptr<LocalSgd>(
      new LocalSgd(job, steps, layout, std::move(optimizer), pin));
}

LocalSgd::LocalSgd(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                   std::unique_ptr<Optimizer> optimizer, const PinMemory& pin)
    : recipe_(job, steps, kStatisticsRate),
      layout_(layout),
      optimizer_(std::move(optimizer)) {
  BufferPool arenas(layout->arena_elements());
  for (Buffer& arena : arenas_) {
    arena = PinnedBuffer(arenas.Take(),
                         layout->arena_elements() * sizeof(float), pin);
    // The optimizer never writes the gaps.
    std::memset(arena.get(), 0, layout->arena_elements() * sizeof(float));
  }
  for (int slot = 0; slot < optimizer_->slots(); ++slot) {
    slots_.push_back(arenas.Take());
  }
  for (int chunk = 0; chunk < layout->chunk_count(); ++chunk) {
    segments_.push_back(layout->ChunkSegments(chunk));
    const int64_t begin = layout->ChunkBegin(chunk);
    for (const ChunkSegment& segment : segments_.back()) {
      arena_segments_.push_back(
          {begin + segment.begin, begin + segment.end, segment.group});
    }
  }
}

double LocalSgd::NormOf(const float* gradient_sum, int64_t sample_count) const {
  GradientSquares squares(arena_segments_);
  squares.Add(gradient_sum, /*other_half=*/nullptr, layout_->arena_elements());
  return MeanGradientNorm(squares.Total(), sample_count);
}

void LocalSgd::Begin(const float* start, int64_t first_step) {
  start_ = weights_ = start;
  first_step_ = first_step;
  taken_ = updates_ = total_sample_count_ = 0;
  for (const Buffer& slot : slots_) {
    std::memset(slot.get(), 0, layout_->arena_elements() * sizeof(float));
  }
}

void LocalSgd::Step(const float* gradient_sum, int64_t sample_count) {
  const int64_t number = step();
  ++taken_;
  if (sample_count == 0) return;
  const double norm = recipe_.clips() ? NormOf(gradient_sum, sample_count) : 0;
  float* const next = arenas_[weights_ == arenas_[0].get() ? 1 : 0].get();
  UpdateStep numbers = recipe_.At(number, sample_count, norm);
  numbers.number = updates_++;
  const OptimizerStep optimizer = optimizer_->At(numbers);
  UpdateArguments update;
  std::vector<float*> slots(slots_.size());
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    const int64_t begin = layout_->ChunkBegin(chunk);
    for (size_t i = 0; i < slots.size(); ++i)
      slots[i] = &slots_[i].get()[begin];
    update.gradient_sum = gradient_sum + begin;
    update.weights = weights_ + begin;
    update.new_weights = next + begin;
    update.slots = slots;
    update.segments = segments_[chunk];
    optimizer.Update(update);
  }
  weights_ = next;
  total_sample_count_ += sample_count;
}

void LocalSgd::OuterGradient(float* out) const {
  const FlushDenormals flush;
  const float scale = static_cast<float>(total_sample_count_);
  for (int64_t i = 0; i < layout_->arena_elements(); ++i) {
    out[i] = scale * (start_[i] - weights_[i]);
  }
}

}  // namespace tributary
