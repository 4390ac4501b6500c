#include "common/update/aggregation/chunk_aggregator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/numerics/vector_ops.h"

namespace tributary {

void TreeSum::Read(int64_t begin, int64_t count, const float** half,
                   const float** other_half) const {
  *other_half = nullptr;
  // The blocks of the stack. Entry i of the stack points to block i or to a
  // source.
  static thread_local std::vector<float> blocks;
  static thread_local std::vector<const float*> stack;
  blocks.resize(std::max<size_t>(blocks.size(), depth_ * kBlock));
  stack.clear();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto& source = steps_[i];
    if (source != nullptr) {
      float* const block = blocks.data() + stack.size() * kBlock;
      // A sparse right child is added directly if its left sibling is in a
      // block of the stack.
      const bool adds = source->sparse() && dtype_ == ExchangeSpec::FLOAT32 &&
                        i + 1 < steps_.size() && steps_[i + 1] == nullptr &&
                        stack.back() == block - kBlock;
      if (adds) {
        source->Add(begin, count, block - kBlock);
        ++i;
        continue;
      }
      stack.push_back(source->Read(begin, count, block));
      continue;
    }
    const float* const right = stack.back();
    stack.pop_back();
    if (i + 1 == steps_.size() && dtype_ == ExchangeSpec::FLOAT32) {
      *other_half = right;
      break;
    }
    const float* const left = stack.back();
    float* const block = blocks.data() + (stack.size() - 1) * kBlock;
    if (left == block) {
      AddRounded(dtype_, right, block, count);
    } else {
      SumRounded(dtype_, left, right, block, count);
      stack.back() = block;
    }
  }
  *half = stack.back();
}

TreeSum TreeSum::Of(std::shared_ptr<const GradientSource> gradient) {
  NodeSum whole;
  whole.gradient = std::move(gradient);
  ChunkAggregator aggregator(/*leaves=*/1, ExchangeSpec::FLOAT32);
  aggregator.Add(std::move(whole));
  return aggregator.Take();
}

int TreeSum::MostDepth(int leaves) {
  int depth = 1;
  for (; leaves > 1; leaves /= 2) ++depth;
  return depth;
}

TreeSum::Nonfinite TreeSum::FindNonfinite(int64_t elements) const {
  // Returns the first such element before `end`, or `end`.
  const auto first = [](int64_t end, const auto& read) {
    for (int64_t begin = 0; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      const float* const values = read(begin, count);
      const float* const bad =
          std::find_if(values, values + count,
                       [](float value) { return !std::isfinite(value); });
      if (bad != values + count) return begin + (bad - values);
    }
    return end;
  };
  Nonfinite found;
  found.element = elements;
  size_t number = 0;
  std::vector<float> scratch(kBlock);
  for (const auto& source : steps_) {
    if (source == nullptr) continue;
    const int64_t contributor = contributors_[number++];
    const int64_t element =
        first(found.element, [&](int64_t begin, int64_t count) {
          return source->Read(begin, count, scratch.data());
        });
    if (element < found.element) found = {element, contributor};
  }
  if (found.element < elements) return found;
  found.element = first(elements, [&](int64_t begin, int64_t count) {
    const float* half = nullptr;
    const float* other_half = nullptr;
    Read(begin, count, &half, &other_half);
    if (other_half == nullptr) return half;
    Sum2(half, other_half, scratch.data(), count);
    return const_cast<const float*>(scratch.data());
  });
  return found.element < elements ? found : Nonfinite();
}

int64_t TreeSum::FindContributor(
    const std::function<bool(const GradientSource&)>& is_wanted) const {
  size_t number = 0;
  for (const auto& source : steps_) {
    if (source == nullptr) continue;
    if (is_wanted(*source)) return contributors_[number];
    ++number;
  }
  return 0;
}

ChunkAggregator::ChunkAggregator(int leaves, WireDtype dtype)
    : leaves_(leaves),
      dtype_(dtype),
      sums_(2 * leaves),
      covered_(2 * leaves, false) {}

bool ChunkAggregator::Add(NodeSum sum) {
  const int node = sum.node;
  for (int n = node / 2; n >= 1; n /= 2) {
    if (Has(n, sum.contributor)) return false;
  }
  if (Covers(node, sum.contributor)) return false;
  DropUnder(node, sum.contributor);
  sums_[node].push_back(std::move(sum));
  covered_[node] = true;
  CoverAbove(node);
  return true;
}

bool ChunkAggregator::Has(int node, int64_t contributor) const {
  return std::any_of(sums_[node].begin(), sums_[node].end(),
                     [contributor](const NodeSum& sum) {
                       return sum.contributor == contributor;
                     });
}

bool ChunkAggregator::Covers(int node, int64_t contributor) const {
  return Has(node, contributor) ||
         (node < leaves_ && Covers(2 * node, contributor) &&
          Covers(2 * node + 1, contributor));
}

void ChunkAggregator::CoverAbove(int node) {
  for (int n = node / 2; n >= 1; n /= 2) {
    covered_[n] = !sums_[n].empty() || (covered_[2 * n] && covered_[2 * n + 1]);
  }
}

void ChunkAggregator::DropUnder(int node, int64_t contributor) {
  if (node >= leaves_) return;
  for (const int child : {2 * node, 2 * node + 1}) {
    DropUnder(child, contributor);
    auto& sums = sums_[child];
    sums.erase(std::remove_if(sums.begin(), sums.end(),
                              [contributor](const NodeSum& sum) {
                                return sum.contributor == contributor;
                              }),
               sums.end());
  }
}

void ChunkAggregator::DropFrom(int64_t contributor) {
  // Node 0 does not exist; its child is the root.
  DropUnder(1, contributor);
  auto& root = sums_[1];
  root.erase(std::remove_if(root.begin(), root.end(),
                            [contributor](const NodeSum& sum) {
                              return sum.contributor == contributor;
                            }),
             root.end());
  for (int n = 2 * leaves_ - 1; n >= 1; --n) {
    covered_[n] = !sums_[n].empty() ||
                  (n < leaves_ && covered_[2 * n] && covered_[2 * n + 1]);
  }
}

std::optional<int> ChunkAggregator::FirstMissing() const {
  if (covered_[1]) return std::nullopt;
  int node = 1;
  while (node < leaves_) node = covered_[2 * node] ? 2 * node + 1 : 2 * node;
  return node - leaves_;
}

TreeSum ChunkAggregator::Take() {
  TreeSum total;
  total.dtype_ = dtype_;
  total.loss_sum_ = TakeUnder(1, /*height=*/1, &total);
  for (auto& sums : sums_) sums.clear();
  covered_.assign(covered_.size(), false);
  return total;
}

LossSum ChunkAggregator::TakeUnder(int node, int height, TreeSum* sum) {
  if (!sums_[node].empty()) {
    NodeSum& first = sums_[node].front();
    sum->steps_.push_back(std::move(first.gradient));
    sum->contributors_.push_back(first.contributor);
    if (!std::isfinite(first.loss_sum.value().value_or(0))) {
      sum->nonfinite_loss_contributor_ = first.contributor;
    }
    sum->depth_ = std::max(sum->depth_, height);
    sum->sample_count_ += first.sample_count;
    return first.loss_sum;
  }
  const LossSum left = TakeUnder(2 * node, height, sum);
  const LossSum right = TakeUnder(2 * node + 1, height + 1, sum);
  sum->steps_.push_back(nullptr);
  return left + right;
}

}  // namespace tributary
