#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "common/cuda/neighbours.h"
#include "common/optimizer/cuda/square_sums_kernel.h"
#include "common/optimizer/cuda/update.h"

namespace tributary::cuda {
namespace {

// Number of tiles that a thread block updates, one after another: enough to let
// warps load while others sum, and few enough that a thread block ends soon.
constexpr int64_t kTilesPerBlock = 4;

template <typename Rule>
struct UpdateElements {
  static constexpr int kSlots = Rule::kSlots;
  static constexpr int kArrays = kSlots > 0 ? kSlots : 1;  // Never empty.

  // Updates four elements from i, which belong to `row`. Returns their sums.
  __device__ Four operator()(int64_t i, const ChunkRow& row) const {
    const Four sums = FlushedFour(LoadGroup(sum + i));
    Four fours = LoadGroup(weights + i);
    // Number of the four that belong to a parameter; the rest are a gap.
    const int count =
        static_cast<int>(row.elements) - static_cast<int>(i % kRowElements);
    if (row.group == RowGroup::kStatistics) {
#pragma unroll
      for (int n = 0; n < kFour; ++n) {
        const Flushed g = Flushed(sums.values[n]) * Flushed(statistics_scale);
        Flushed* const no_state = nullptr;
        const Flushed w =
            StatisticsRule().Update(g, Flushed(fours.values[n]), no_state);
        fours.values[n] = n < count ? w.value() : 0;
      }
      StoreGroup(fours, new_weights + i);
      return sums;
    }
    Four state[kArrays];
    for (int s = 0; s < kSlots; ++s) state[s] = LoadGroup(slots[s] + i);
    // A copy: nvcc would put both into local memory to refer to one.
    Rule rule = row.group == RowGroup::kDecay ? decayed : plain;
    if (row.learning_rate_factor != 1 && !only_direction) {
      rule = rule.TimesRate(Flushed(row.learning_rate_factor));
    }
#pragma unroll
    for (int n = 0; n < kFour; ++n) {
      Flushed of_element[kArrays];
      for (int s = 0; s < kSlots; ++s) {
        of_element[s] = Flushed(state[s].values[n]);
      }
      const Flushed w =
          rule.Update(Flushed(sums.values[n]) * Flushed(gradient_scale),
                      Flushed(fours.values[n]), of_element);
      fours.values[n] = n < count ? w.value() : 0;
      for (int s = 0; s < kSlots; ++s) {
        if (n < count) state[s].values[n] = of_element[s].value();
      }
    }
    StoreGroup(fours, new_weights + i);
    if (only_direction) return sums;
    for (int s = 0; s < kSlots; ++s) StoreGroup(state[s], slots[s] + i);
    return sums;
  }

  // As in ChunkUpdatePass.
  const float* sum;
  const float* weights;
  float* new_weights;
  float gradient_scale;
  float statistics_scale;
  bool only_direction;
  Rule decayed, plain;
  float* slots[kArrays];
};

template <typename Rule>
struct UpdateGroup {
  int64_t blocks = 0;  // Number of thread blocks of each chunk.
  SquareSums chunks[kGroupChunks];
  UpdateElements<Rule> updates[kGroupChunks];
};

template <typename Rule>
__global__ void __launch_bounds__(kBlockThreads)
    UpdateChunksKernel(const UpdateGroup<Rule> group) {
  __shared__ SquareTile tiles[2];
  const auto chunk = static_cast<int>(blockIdx.x / group.blocks);
  ForEachTile(group.chunks[chunk], blockIdx.x % group.blocks, group.blocks,
              tiles, group.updates[chunk]);
}

template <typename Rule>
UpdateGroup<Rule> GroupOf(absl::Span<const ChunkUpdatePass> chunks) {
  UpdateGroup<Rule> group;
  for (size_t n = 0; n < chunks.size(); ++n) {
    const ChunkUpdatePass& pass = chunks[n];
    group.blocks = std::max(
        group.blocks, CeilDivide(SquareBlocks(pass.elements), kTilesPerBlock));
    group.chunks[n] = {pass.elements, pass.sum, pass.rows, pass.squares};
    group.updates[n] = {pass.sum,
                        pass.weights,
                        pass.new_weights,
                        pass.gradient_scale,
                        pass.statistics_scale,
                        pass.only_direction,
                        std::get<Rule>(pass.decayed),
                        std::get<Rule>(pass.plain),
                        {}};
    std::copy_n(pass.slots.begin(), Rule::kSlots, group.updates[n].slots);
  }
  group.blocks = std::min(group.blocks, kMaximumBlocks);
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
        Launch(stream, "UpdateChunks",
               static_cast<int64_t>(chunks.size()) * group.blocks,
               kBlockThreads, &UpdateChunksKernel<Rule>, group);
      },
      chunks[0].plain);
}

}  // namespace tributary::cuda
