#include "common/pipeline/stage_partition.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tributary {
namespace {

constexpr double kNotAllowed = std::numeric_limits<double>::infinity();

// `combine(a, b)` is the cost of two groups of stages with the costs a and b;
// it must not decrease with a, and must be at least a.
template <typename Combine>
std::vector<int> Partition(int segments, int stages, StageCost cost,
                           Combine combine) {
  // Indexed by `end`: the smallest cost of the stages so far if they consist of
  // the segments [0, end).
  std::vector<double> best(segments + 1, kNotAllowed);
  best[0] = 0;
  // Indexed by stage and `end`: where the stage then begins.
  std::vector<std::vector<int>> begins(stages, std::vector<int>(segments + 1));
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<double> next(segments + 1, kNotAllowed);
    for (int end = stage + 1; end <= segments; ++end) {
      for (int begin = stage; begin < end; ++begin) {
        if (best[begin] >= next[end]) continue;
        const double total = combine(best[begin], cost(stage, begin, end));
        if (total >= next[end]) continue;
        next[end] = total;
        begins[stage][end] = begin;
      }
    }
    best = std::move(next);
  }
  if (best[segments] == kNotAllowed) return {};
  std::vector<int> bounds = {segments};
  for (int stage = stages; stage-- > 0;)
    bounds.push_back(begins[stage][bounds.back()]);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

}  // namespace

std::vector<int> MinimizeLargestCost(int segments, int stages, StageCost cost) {
  return Partition(segments, stages, cost,
                   [](double a, double b) { return std::max(a, b); });
}

std::vector<int> MinimizeSumOfCosts(int segments, int stages, StageCost cost) {
  return Partition(segments, stages, cost,
                   [](double a, double b) { return a + b; });
}

}  // namespace tributary
