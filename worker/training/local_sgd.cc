#include "worker/training/local_sgd.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/numerics/flush_denormals.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<LocalSgd>> LocalSgd::Create(
    const JobSpec& job, int64_t steps, const ArenaLayout* layout,
    const PinMemory& pin, int begin_chunk, int end_chunk) {
  // The servers average the weights of rounds, not those of inner steps.
  OptimizerSpec inner = job.optimizer();
  inner.clear_average_decay();
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(inner));
  return std::unique_ptr<LocalSgd>(
      new LocalSgd(job, steps, layout, std::move(optimizer), pin, begin_chunk,
                   end_chunk < 0 ? layout->chunk_count() : end_chunk));
}

LocalSgd::LocalSgd(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                   std::unique_ptr<Optimizer> optimizer, const PinMemory& pin,
                   int begin_chunk, int end_chunk)
    : recipe_(job, steps, kStatisticsRate),
      layout_(layout),
      optimizer_(std::move(optimizer)),
      begin_chunk_(begin_chunk),
      end_chunk_(end_chunk),
      begin_(std::min(begin_chunk * layout->chunk_elements(),
                      layout->arena_elements())),
      end_(std::min(end_chunk * layout->chunk_elements(),
                    layout->arena_elements())) {
  BufferPool arenas(layout->arena_elements());
  for (Buffer& arena : arenas_) {
    arena = PinnedBuffer(arenas.Take(),
                         layout->arena_elements() * sizeof(float), pin);
    // The optimizer never writes the gaps.
    Clear(arena);
  }
  for (int slot = 0; slot < optimizer_->slots(); ++slot) {
    slots_.push_back(arenas.Take());
  }
  for (int chunk = begin_chunk; chunk < end_chunk; ++chunk) {
    segments_.push_back(layout->ChunkSegments(chunk));
    const int64_t begin = layout->ChunkBegin(chunk);
    for (const ChunkSegment& segment : segments_.back()) {
      arena_segments_.push_back(
          {begin + segment.begin, begin + segment.end, segment.group});
    }
  }
}

void LocalSgd::Clear(const Buffer& arena) const {
  std::fill(arena.get() + begin_, arena.get() + end_, 0.0f);
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
  for (const Buffer& slot : slots_) Clear(slot);
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
  for (int chunk = begin_chunk_; chunk < end_chunk_; ++chunk) {
    const int64_t begin = layout_->ChunkBegin(chunk);
    for (size_t i = 0; i < slots.size(); ++i)
      slots[i] = &slots_[i].get()[begin];
    update.gradient_sum = gradient_sum + begin;
    update.weights = weights_ + begin;
    update.new_weights = next + begin;
    update.slots = slots;
    update.segments = segments_[chunk - begin_chunk_];
    optimizer.Update(update);
  }
  weights_ = next;
  total_sample_count_ += sample_count;
}

void LocalSgd::Replace(int64_t begin, absl::Span<const float> values) {
  float* const arena = arenas_[weights_ == arenas_[0].get() ? 0 : 1].get();
  std::copy(values.begin(), values.end(), arena + begin);
}

void LocalSgd::OuterGradient(float* out) const {
  const FlushDenormals flush;
  const float scale = static_cast<float>(total_sample_count_);
  for (int64_t i = begin_; i < end_; ++i) {
    out[i] = scale * (start_[i] - weights_[i]);
  }
}

}  // namespace tributary
