#include "server/chunk_aggregator.h"

#include <utility>

#include "common/vector_ops.h"

namespace tributary {

ChunkAggregator::ChunkAggregator(int leaves)
    : leaves_(leaves), sums_(2 * leaves), covered_(2 * leaves, false) {}

bool ChunkAggregator::Add(int node, NodeSum sum) {
  for (int n = node; n >= 1; n /= 2) {
    if (covered_[n]) return false;
  }
  DropUnder(node);
  sums_[node] = std::move(sum);
  covered_[node] = true;
  for (int n = node; n > 1 && covered_[n] && covered_[n ^ 1]; n /= 2) {
    covered_[n / 2] = true;
  }
  return true;
}

// Parts of `node` that came on their own are not needed any more.
void ChunkAggregator::DropUnder(int node) {
  if (node >= leaves_) return;
  for (const int child : {2 * node, 2 * node + 1}) {
    DropUnder(child);
    sums_[child].reset();
    covered_[child] = false;
  }
}

NodeSum ChunkAggregator::Finish(int64_t elements) {
  NodeSum total = SumUnder(1, elements);
  for (auto& sum : sums_) sum.reset();
  covered_.assign(covered_.size(), false);
  return total;
}

NodeSum ChunkAggregator::SumUnder(int node, int64_t elements) {
  if (sums_[node].has_value()) return *std::move(sums_[node]);
  NodeSum left = SumUnder(2 * node, elements);
  const NodeSum right = SumUnder(2 * node + 1, elements);
  AddInto(right.gradient.get(), left.gradient.get(), elements);
  left.weight += right.weight;
  left.loss_sum += right.loss_sum;
  return left;
}

}  // namespace tributary
