#include "common/update/block_pass.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "common/numerics/streaming_copy.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {
namespace {

// Largest number of elements of a chunk that is updated by the thread that adds
// the last contribution. For so few elements, waking another thread would take
// longer than the update.
constexpr int64_t kBriefElements = 16384;

// In block_parts_: an element of a parameter without weight decay.
constexpr int kNoPart = -1;

// Zeroes the gaps between parameters. The optimizer does not write them, and
// the buffer is reused.
void ZeroGaps(absl::Span<const ChunkSegment> segments, int64_t count,
              float* weights) {
  int64_t written = 0;
  for (const ChunkSegment& segment : segments) {
    std::fill(weights + written, weights + segment.begin, 0.f);
    written = segment.end;
  }
  std::fill(weights + written, weights + count, 0.f);
}

}  // namespace

// Cuts the segments at the blocks' boundaries, once for all updates. Doing so
// during the pass would slow it down.
BlockPass::BlockPass(const ArenaLayout& layout, int chunk,
                     const Optimizer* optimizer)
    : elements_(layout.ChunkSize(chunk)),
      segments_(layout.ChunkSegments(
          chunk, /*by_parameter=*/optimizer->has_trust_ratios())),
      optimizer_(*optimizer) {
  for (int slot = 0; slot < optimizer_.slots(); ++slot) {
    slots_.push_back(AllocateBuffer(elements_));
    std::fill_n(slots_.back().get(), elements_, 0.f);
  }
  for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
    const int64_t end = std::min(begin + TreeSum::kBlock, elements_);
    first_of_block_.push_back(block_segments_.size());
    int part = -1;
    for (const ChunkSegment& segment : segments_) {
      if (segment.group == DECAY) ++part;
      const int64_t from = std::max(segment.begin, begin);
      const int64_t to = std::min(segment.end, end);
      if (from >= to) continue;
      block_segments_.push_back(segment);
      block_segments_.back().begin = from - begin;
      block_segments_.back().end = to - begin;
      if (optimizer_.has_trust_ratios()) {
        block_parts_.push_back(segment.group == DECAY ? part : kNoPart);
      }
    }
  }
  first_of_block_.push_back(block_segments_.size());
  parts_ = static_cast<int>(std::count_if(
      segments_.begin(), segments_.end(),
      [](const ChunkSegment& segment) { return segment.group == DECAY; }));
}

bool BlockPass::brief() const { return elements_ <= kBriefElements; }

absl::Status BlockPass::Restore(std::vector<Buffer> slots) {
  slots_ = std::move(slots);
  return absl::OkStatus();
}

absl::Status BlockPass::CopyState(absl::Span<const Buffer> to) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    std::copy_n(slots_[i].get(), elements_, to[i].get());
  }
  return absl::OkStatus();
}

absl::StatusOr<double> BlockPass::SumOfSquares(const TreeSum& sum) {
  GradientSquares squares(segments_);
  for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, elements_ - begin);
    const float* half = nullptr;
    const float* other_half = nullptr;
    sum.Read(begin, count, &half, &other_half);
    squares.Add(half, other_half, count);
  }
  return squares.Total();
}

absl::StatusOr<std::vector<TensorSquares>> BlockPass::SumTensorSquares(
    const TensorArguments& arguments) {
  const UpdateStep& step = arguments.step;
  const std::optional<OptimizerRule> rule = optimizer_.DirectionAt(step.number);
  const OptimizerStep direction = {*rule, *rule, step.gradient_scale};
  alignas(64) float directions[TreeSum::kBlock];
  // A copy, because the rule changes the state.
  std::vector<float> state(slots_.size() * TreeSum::kBlock);
  std::vector<float*> slots(slots_.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = state.data() + i * TreeSum::kBlock;
  }
  UpdateArguments update;
  update.new_weights = directions;
  update.slots = absl::MakeSpan(slots);
  std::vector<GradientSquares> of_weights(parts_, GradientSquares({}));
  std::vector<GradientSquares> of_directions(parts_, GradientSquares({}));
  for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, elements_ - begin);
    const int64_t block = begin / TreeSum::kBlock;
    arguments.sum->Read(begin, count, &update.gradient_sum,
                        &update.other_gradient_sum);
    update.weights = arguments.weights.get() + begin;
    for (size_t i = 0; i < slots.size(); ++i) {
      std::copy_n(slots_[i].get() + begin, count, slots[i]);
    }
    for (size_t i = first_of_block_[block]; i < first_of_block_[block + 1];
         ++i) {
      const int part = block_parts_[i];
      if (part == kNoPart) continue;
      ChunkSegment segment = block_segments_[i];
      segment.learning_rate_factor = 1;
      update.segments = absl::MakeConstSpan(&segment, 1);
      direction.Update(update);
      const int64_t size = segment.end - segment.begin;
      of_weights[part].Add(update.weights + segment.begin, nullptr, size);
      of_directions[part].Add(directions + segment.begin, nullptr, size);
    }
  }
  std::vector<TensorSquares> squares;
  for (int part = 0; part < parts_; ++part) {
    squares.push_back({of_weights[part].Total(), of_directions[part].Total()});
  }
  return squares;
}

std::vector<ChunkSegment> BlockPass::Scaled(
    absl::Span<const float> trust_ratios) const {
  std::vector<ChunkSegment> segments = block_segments_;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (block_parts_[i] == kNoPart) continue;
    segments[i].learning_rate_factor *= trust_ratios[block_parts_[i]];
  }
  return segments;
}

absl::StatusOr<double> BlockPass::Run(const Arguments& arguments) {
  const ChunkWeights::Next& next = *arguments.next;
  if (!arguments.streams) ZeroGaps(segments_, elements_, next.values.get());
  alignas(64) float fresh[TreeSum::kBlock];
  const OptimizerStep step = optimizer_.At(arguments.step);
  std::vector<ChunkSegment> scaled;
  if (!arguments.trust_ratios.empty()) scaled = Scaled(arguments.trust_ratios);
  const absl::Span<const ChunkSegment> segments =
      scaled.empty() ? block_segments_ : scaled;
  UpdateArguments update;
  GradientSquares squares(segments_);
  std::vector<float*> slots(slots_.size());
  for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, elements_ - begin);
    const int64_t block = begin / TreeSum::kBlock;
    const size_t first = first_of_block_[block];
    for (size_t i = 0; i < slots.size(); ++i) {
      slots[i] = slots_[i].get() + begin;
    }
    arguments.sum->Read(begin, count, &update.gradient_sum,
                        &update.other_gradient_sum);
    update.weights = next.from.get() + begin;
    update.new_weights = next.values.get() + begin;
    update.slots = absl::MakeSpan(slots);
    update.segments =
        segments.subspan(first, first_of_block_[block + 1] - first);
    if (arguments.streams) {
      ZeroGaps(update.segments, count, fresh);
      update.new_weights = fresh;
    }
    if (arguments.skip) {
      std::copy_n(update.weights, count, update.new_weights);
    } else {
      step.Update(update);
    }
    next.Write(begin, count, update.new_weights);
    if (arguments.copy != nullptr) {
      // While the block is in the cache.
      if (next.place == MemoryPlace::kShared) {
        StreamingCopy(update.new_weights, count,
                      arguments.copy->values.get() + begin);
      }
      for (size_t i = 0; i < slots.size(); ++i) {
        StreamingCopy(slots[i], count, arguments.copy->slots[i].get() + begin);
      }
    }
    if (arguments.squares) {
      squares.Add(update.gradient_sum, update.other_gradient_sum, count);
    }
    if (begin == 0) FailpointOrDie("S8");
  }
  return squares.Total();
}

absl::StatusOr<ChunkPasses> MakeBlockPasses(const ChunkPassPlan& plan) {
  ChunkPasses made;
  for (const int chunk : plan.chunks) {
    made.passes.push_back(
        std::make_unique<BlockPass>(*plan.layout, chunk, plan.optimizer));
  }
  return made;
}

}  // namespace tributary
