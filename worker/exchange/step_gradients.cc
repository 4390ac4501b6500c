#include "worker/exchange/step_gradients.h"

#include <algorithm>
#include <utility>

#include "common/parameters/gradient_squares.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {
namespace {

// Leaves are not rounded yet, and rounding a sum again does not change it.
double SumOfRoundedSquares(WireDtype dtype, const float* x, int64_t count,
                           absl::Span<const ChunkSegment> segments) {
  GradientSquares squares(segments);
  if (dtype == ExchangeSpec::FLOAT32) {
    squares.Add(x, /*other_half=*/nullptr, count);
    return squares.Total();
  }
  constexpr int64_t kBlock = 1024;
  float rounded[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    RoundedCopy(dtype, x + begin, rounded, size);
    squares.Add(rounded, /*other_half=*/nullptr, size);
  }
  return squares.Total();
}

}  // namespace

StepGradients::StepGradients(const Plan& plan, int64_t step,
                             const std::vector<int64_t>& micro_batches,
                             Senders senders)
    : plan_(plan),
      step_(step),
      senders_(std::move(senders)),
      held_(plan.awaits_norm ? plan.layout->chunk_count() : 0),
      missing_(static_cast<int>(held_.size())) {
  for (const int node : MaximalSubtreesOf(micro_batches, plan.tree_leaves)) {
    tops_.insert(node);
  }
}

absl::Status StepGradients::SetLearningRate(double rate) const {
  if (plan_.rates == nullptr) {
    return absl::InvalidArgumentError(
        "consistency mode local_steps has the learning rate of the job's "
        "schedule; the program cannot state one");
  }
  return plan_.rates->Add(step_, rate);
}

void StepGradients::Ready(NodeChunk sum) {
  const int chunk = sum.chunk;
  while (plan_.adds && tops_.count(sum.node) == 0) {
    NodeChunk sibling;
    {
      absl::MutexLock lock(&mu_);
      const auto found = waiting_.find({chunk, sum.node ^ 1});
      if (found == waiting_.end()) {
        const std::pair<int, int> key = {chunk, sum.node};
        waiting_.emplace(key, std::move(sum));
        return;
      }
      sibling = std::move(found->second);
      waiting_.erase(found);
    }
    sibling.sample_count += sum.sample_count;
    sibling.loss_sum += sum.loss_sum;
    Add(std::move(sum), &sibling);
    sibling.node /= 2;
    sum = std::move(sibling);
  }
  SendOrHold(std::move(sum));
}

// Adds into the sibling's arena, which is already in use, and frees the other
// one for the next micro-batch. Addition is commutative, so the bits do not
// change.
void StepGradients::Add(NodeChunk sum, NodeChunk* sibling) {
  if (plan_.device != nullptr) return AddOnDevice(std::move(sum), sibling);
  const int64_t begin = plan_.layout->ChunkBegin(sum.chunk);
  const auto add = sum.node >= plan_.tree_leaves ? RoundAndAdd : AddRounded;
  add(plan_.dtype, sum.arena.get() + begin, sibling->arena.get() + begin,
      plan_.layout->ChunkSize(sum.chunk));
}

void StepGradients::AddOnDevice(NodeChunk sum, NodeChunk* sibling) {
  const int64_t begin = plan_.layout->ChunkBegin(sum.chunk);
  plan_.device->Add(sum.arena.get() + begin, plan_.layout->ChunkSize(sum.chunk),
                    sibling->arena.get() + begin);
  sibling->ready = plan_.device->Record();
  sibling->summands.push_back(std::move(sum.arena));
  for (Buffer& summand : sum.summands) {
    sibling->summands.push_back(std::move(summand));
  }
}

void StepGradients::SendOrHold(NodeChunk sum) {
  if (!plan_.awaits_norm) return Send(std::move(sum));
  std::vector<NodeChunk> sums;
  {
    absl::MutexLock lock(&mu_);
    const int chunk = sum.chunk;
    held_[chunk] = std::move(sum);
    if (--missing_ > 0) return;
    sums.swap(held_);
  }
  const double norm = NormOf(sums);
  for (auto it = sums.rbegin(); it != sums.rend(); ++it) {
    it->gradient_norm = norm;
    Send(std::move(*it));
  }
}

double StepGradients::NormOf(const std::vector<NodeChunk>& sums) const {
  double squares = 0;
  for (const NodeChunk& sum : sums) {
    squares += SumOfRoundedSquares(
        plan_.dtype, sum.arena.get() + plan_.layout->ChunkBegin(sum.chunk),
        plan_.layout->ChunkSize(sum.chunk),
        plan_.layout->ChunkSegments(sum.chunk));
  }
  return MeanGradientNorm(squares, sums[0].sample_count);
}

}  // namespace tributary
