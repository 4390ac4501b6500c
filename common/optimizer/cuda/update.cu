#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "common/optimizer/cuda/square_sums_kernel.h"
#include "common/optimizer/cuda/update.h"

namespace tributary::cuda {
namespace {

template <typename Rule>
struct UpdateElement {
  static constexpr int kSlots = Rule::kSlots;
  static constexpr int kArrays = kSlots > 0 ? kSlots : 1;  // Never empty.

  __device__ void operator()(int64_t i) const {
    const ChunkRow row = rows[i / kRowElements];
    if (i % kRowElements >= row.elements) {
      new_weights[i] = 0;
      return;
    }
    const Flushed total(sum[i]);
    const Flushed w(weights[i]);
    if (row.group == RowGroup::kStatistics) {
      const Flushed g = total * Flushed(statistics_scale);
      Flushed* const no_state = nullptr;
      new_weights[i] = StatisticsRule().Update(g, w, no_state).value();
      return;
    }
    Flushed state[kArrays];
    for (int s = 0; s < kSlots; ++s) state[s] = Flushed(slots[s][i]);
    // A copy: nvcc would put both into local memory to refer to one.
    Rule rule = row.group == RowGroup::kDecay ? decayed : plain;
    if (row.learning_rate_factor != 1) {
      rule = rule.TimesRate(Flushed(row.learning_rate_factor));
    }
    new_weights[i] =
        rule.Update(total * Flushed(gradient_scale), w, state).value();
    for (int s = 0; s < kSlots; ++s) slots[s][i] = state[s].value();
  }

  // As in ChunkUpdatePass.
  const ChunkRow* rows;
  const float* sum;
  const float* weights;
  float* new_weights;
  float gradient_scale;
  float statistics_scale;
  Rule decayed, plain;
  float* slots[kArrays];
};

template <typename Rule>
struct UpdateGroup {
  SquareSums squares[kGroupChunks];
  int square_count = 0;
  int blocks = 0;  // Of each update.
  int64_t elements[kGroupChunks];
  UpdateElement<Rule> updates[kGroupChunks];
};

// The first blocks sum the squares of a chunk each, because they take longest.
// Then follow the blocks of each update.
template <typename Rule>
__global__ void UpdateChunksKernel(const UpdateGroup<Rule> group) {
  __shared__ SquareTile tiles[2];
  const int block = static_cast<int>(blockIdx.x);
  if (block < group.square_count) {
    SumSquaresInBlock(group.squares[block], tiles);
    return;
  }
  const int chunk = (block - group.square_count) / group.blocks;
  const int place = (block - group.square_count) % group.blocks;
  const int64_t step = static_cast<int64_t>(group.blocks) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(place) * blockDim.x + threadIdx.x;
       i < group.elements[chunk]; i += step) {
    group.updates[chunk](i);
  }
}

template <typename Rule>
UpdateGroup<Rule> GroupOf(absl::Span<const ChunkUpdatePass> chunks) {
  UpdateGroup<Rule> group;
  int64_t most = 0;
  for (size_t n = 0; n < chunks.size(); ++n) {
    const ChunkUpdatePass& pass = chunks[n];
    most = std::max(most, pass.elements);
    group.elements[n] = pass.elements;
    group.updates[n] = {pass.rows,
                        pass.sum,
                        pass.weights,
                        pass.new_weights,
                        pass.gradient_scale,
                        pass.statistics_scale,
                        std::get<Rule>(pass.decayed),
                        std::get<Rule>(pass.plain),
                        {}};
    std::copy_n(pass.slots.begin(), Rule::kSlots, group.updates[n].slots);
    if (pass.squares == nullptr) continue;
    group.squares[group.square_count++] = {pass.elements, pass.sum, pass.rows,
                                           pass.squares};
  }
  group.blocks = static_cast<int>(
      std::min(CeilDivide(most, kBlockThreads), kMaximumBlocks / kGroupChunks));
  return group;
}

template <size_t... kRules>
cudaError_t LoadUpdates(std::index_sequence<kRules...> /*rules*/) {
  cudaFuncAttributes attributes;
  cudaError_t result = cudaSuccess;
  for (const cudaError_t error : {cudaFuncGetAttributes(
           &attributes,
           &UpdateChunksKernel<
               std::variant_alternative_t<kRules, OptimizerRule>>)...}) {
    if (error != cudaSuccess) result = error;
  }
  return result;
}

}  // namespace

cudaError_t LoadUpdateChunks() {
  return LoadUpdates(
      std::make_index_sequence<std::variant_size_v<OptimizerRule>>());
}

void UpdateChunks(Stream& stream, absl::Span<const ChunkUpdatePass> chunks) {
  if (chunks.empty()) return;
  std::visit(
      [&](const auto& plain) {
        using Rule = std::decay_t<decltype(plain)>;
        const UpdateGroup<Rule> group = GroupOf<Rule>(chunks);
        const int64_t updates = static_cast<int64_t>(chunks.size());
        Launch(stream, "UpdateChunks",
               group.square_count + updates * group.blocks, kBlockThreads,
               &UpdateChunksKernel<Rule>, group);
      },
      chunks[0].plain);
}

}  // namespace tributary::cuda
