#include "worker/exchange/all_reduce/host_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/job/exchange_traits.h"
#include "common/numerics/vector_ops.h"

namespace tributary {
namespace {

// Returns a buffer for memory that the caller keeps alive.
Buffer Borrowed(float* values) { return Buffer(Buffer(), values); }

}  // namespace

HostOptimizer::HostOptimizer(const JobSpec& job, int64_t steps,
                             const ArenaLayout* layout,
                             std::unique_ptr<Optimizer> optimizer,
                             const std::vector<int>& chunks)
    : MemberOptimizer(job, steps, layout, std::move(optimizer)),
      awaits_norm_(ResolveExchange(job).updates_await_norm) {
  for (const int chunk : chunks) {
    passes_.try_emplace(chunk, *layout, chunk, optimizer_.get());
  }
}

TreeSum HostOptimizer::AddUp(TreeSum parts, int64_t elements, bool whole) {
  if (!whole || parts.steps().size() == 1) return parts;
  // In the memory of the first part: each of its elements is read before it is
  // overwritten.
  const MemoryView& to = parts.steps().front()->memory();
  for (int64_t begin = 0; begin < elements; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, elements - begin);
    const float* half = nullptr;
    const float* other_half = nullptr;
    parts.Read(begin, count, &half, &other_half);
    float* const sum = to.values + begin;
    if (half == sum) {
      AddInto(other_half, sum, count);
    } else {
      Sum2(half, other_half, sum, count);
    }
  }
  return TreeSum::Of(std::make_shared<GradientInMemory>(to));
}

HostOptimizer::SquareSum HostOptimizer::SumOf(int chunk, double squares,
                                              const TreeSum& gradient) const {
  if (std::isfinite(squares)) return {squares};
  return {squares, gradient.FindNonfinite(layout_.ChunkSize(chunk)).element};
}

void HostOptimizer::BeginSquareSum(int chunk, const TreeSum& gradient) {
  SquareSum& sum = square_sums_[chunk];
  if (!awaits_norm_) return;
  // A pass on a CPU cannot fail.
  sum = SumOf(chunk, *passes_.at(chunk).SumOfSquares(gradient), gradient);
}

absl::StatusOr<std::map<int, MemberOptimizer::SquareSum>>
HostOptimizer::EndSquareSums() {
  return std::exchange(square_sums_, {});
}

absl::StatusOr<std::vector<std::vector<TensorSquares>>>
HostOptimizer::SumTensorSquares(const Step& step,
                                absl::Span<const WeightsUpdate> updates) {
  std::vector<std::vector<TensorSquares>> squares;
  for (const WeightsUpdate& update : updates) {
    ChunkPass::TensorArguments pass;
    pass.sum = update.gradient;
    pass.step = At(step);
    pass.weights = Borrowed(const_cast<float*>(update.weights));
    squares.push_back(*passes_.at(update.chunk).SumTensorSquares(pass));
  }
  return squares;
}

absl::Status HostOptimizer::Update(const Step& step,
                                   absl::Span<const WeightsUpdate> updates) {
  for (const WeightsUpdate& update : updates) {
    ChunkWeights::Next next;
    next.from = Borrowed(const_cast<float*>(update.weights));
    next.values = Borrowed(update.new_weights);
    ChunkPass::Arguments pass;
    pass.sum = update.gradient;
    pass.step = At(step);
    if (trust_ratios() != nullptr) {
      pass.trust_ratios =
          trust_ratios()->RatiosIn(update.chunk, step.trust_ratios);
    }
    pass.next = &next;
    pass.skip = recipe_.Skips(step.norm);
    const auto sum = square_sums_.find(update.chunk);
    pass.squares = sum != square_sums_.end() && !awaits_norm_;
    const double squares = *passes_.at(update.chunk).Run(pass);
    if (!pass.squares) continue;
    sum->second = SumOf(update.chunk, squares, *update.gradient);
  }
  return absl::OkStatus();
}

absl::Status HostOptimizer::CopyState(const float* weights,
                                      const Snapshot::Chunk& to) {
  std::copy_n(weights, to.elements, to.values.get());
  return passes_.at(to.number).CopyState(to.slots);
}

void HostOptimizer::Restore(const Snapshot::Chunk& chunk) {
  const auto pass = passes_.find(chunk.number);
  if (pass == passes_.end()) return;
  // Copied, because the pass writes to them.
  std::vector<Buffer> slots;
  for (const Buffer& slot : chunk.slots) {
    slots.push_back(AllocateBuffer(chunk.elements));
    std::copy_n(slot.get(), chunk.elements, slots.back().get());
  }
  pass->second.Restore(std::move(slots)).IgnoreError();
}

}  // namespace tributary
