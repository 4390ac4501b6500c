#include <algorithm>
#include <type_traits>
#include <variant>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "server/store/cuda/update.h"

namespace tributary::cuda {
namespace {

template <typename Rule>
struct UpdateElement {
  static constexpr int kSlots = Rule::kSlots;
  static constexpr int kArrays = kSlots > 0 ? kSlots : 1;  // Never empty.

  __device__ void operator()(int64_t i) const {
    const ChunkRow row = rows[i / kRowElements];
    if (i % kRowElements >= row.elements) {
      weights[i] = 0;
      return;
    }
    const Flushed total(sum[i]);
    const Flushed w(weights[i]);
    if (row.group == RowGroup::kStatistics) {
      const Flushed g = total * Flushed(statistics_scale);
      Flushed* const no_state = nullptr;
      weights[i] = StatisticsRule().Update(g, w, no_state).value();
      return;
    }
    Flushed state[kArrays];
    for (int s = 0; s < kSlots; ++s) state[s] = Flushed(slots[s][i]);
    // A copy: nvcc would put both into local memory to refer to one.
    const Rule rule = row.group == RowGroup::kDecay ? decayed : plain;
    weights[i] = rule.Update(total * Flushed(gradient_scale), w, state).value();
    for (int s = 0; s < kSlots; ++s) slots[s][i] = state[s].value();
  }

  // As in ChunkUpdatePass.
  const ChunkRow* rows;
  const float* sum;
  float* weights;
  float gradient_scale;
  float statistics_scale;
  Rule decayed, plain;
  float* slots[kArrays];
};

}  // namespace

void UpdateChunk(Stream& stream, const ChunkUpdatePass& pass) {
  std::visit(
      [&](const auto& plain) {
        using Rule = std::decay_t<decltype(plain)>;
        UpdateElement<Rule> update = {pass.rows,
                                      pass.sum,
                                      pass.weights,
                                      pass.gradient_scale,
                                      pass.statistics_scale,
                                      std::get<Rule>(pass.decayed),
                                      plain,
                                      {}};
        std::copy_n(pass.slots.begin(), Rule::kSlots, update.slots);
        ForEach(stream, "UpdateChunk", pass.elements, update);
      },
      pass.plain);
}

}  // namespace tributary::cuda
