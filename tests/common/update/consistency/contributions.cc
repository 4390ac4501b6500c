#include "tests/common/update/consistency/contributions.h"

#include <utility>
#include <variant>

#include "common/job/job.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/consistency/consistency_policy.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// One element: leaf m of any step is 2^m, so a sum says which leaves it has.
class OneNumber final : public GradientSource {
 public:
  explicit OneNumber(float value) : value_(value) {}
  const float* Read(int64_t, int64_t, float*) const override { return &value_; }

 private:
  const float value_;
};

constexpr float kWholeBatch = (1 << kPolicyLeaves) - 1;

}  // namespace

JobSpec JobWithConsistency(const std::string& consistency) {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(kPolicyLeaves);
  EXPECT_EQ(SetField(&job, "exchange.parameter_server.consistency={" +
                               consistency + "}"),
            absl::OkStatus());
  return job;
}

std::unique_ptr<ConsistencyPolicy> PolicyOf(const std::string& consistency,
                                            int64_t steps, int64_t first_step) {
  absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> policy =
      ConsistencyPolicy::Create(JobWithConsistency(consistency), steps,
                                first_step);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *std::move(policy);
}

std::unique_ptr<ContributionQueue> QueueOf(const std::string& consistency,
                                           int64_t steps, int64_t first_step) {
  return PolicyOf(consistency, steps, first_step)->NewQueue();
}

NodeSum ContributionOf(int64_t step, int node) {
  int begin = node;
  int end = node + 1;
  while (begin < kPolicyLeaves) {
    begin *= 2;
    end *= 2;
  }
  float value = 0;
  for (int leaf = begin; leaf < end; ++leaf) {
    value += 1 << (leaf - kPolicyLeaves);
  }
  NodeSum sum;
  sum.step = step;
  sum.node = node;
  sum.gradient = std::make_shared<OneNumber>(value);
  sum.sample_count = end - begin;
  return sum;
}

NodeSum WholeBatch(int64_t step, int64_t base_version) {
  NodeSum sum = ContributionOf(step, /*node=*/1);
  sum.base_version = base_version;
  return sum;
}

bool IsNothing(const ContributionQueue::Decision& decision) {
  return std::holds_alternative<std::monostate>(decision);
}

const ChunkUpdate* UpdateIn(const ContributionQueue::Decision& decision) {
  return std::get_if<ChunkUpdate>(&decision);
}

const ContributionOutcome* OutcomeIn(
    const ContributionQueue::Decision& decision) {
  return std::get_if<ContributionOutcome>(&decision);
}

void ExpectEachLeafOnce(const ChunkUpdate& update) {
  EXPECT_EQ(update.sum.sample_count(), kPolicyLeaves);
  const float* half = nullptr;
  const float* other_half = nullptr;
  update.sum.Read(0, 1, &half, &other_half);
  EXPECT_EQ(*half + (other_half == nullptr ? 0 : *other_half), kWholeBatch);
}

void UnreliableNetwork::Send(const NodeSum& sum) {
  in_flight_.push_back(sum);
  if (Random(4) == 0) in_flight_.push_back(sum);
}

std::optional<ChunkUpdate> UnreliableNetwork::Tick(
    std::vector<ContributionOutcome>* outcomes) {
  if (!in_flight_.empty() && Random(2) == 0) {
    const size_t i = Random(static_cast<uint32_t>(in_flight_.size()));
    EXPECT_EQ(queue_->Add(version_, in_flight_[i]), absl::OkStatus());
    ++arrived_;
    in_flight_.erase(in_flight_.begin() + static_cast<int64_t>(i));
  }
  if (updating_.has_value()) {
    if (Random(3) != 0) return std::nullopt;
    ++version_;
    return std::exchange(updating_, std::nullopt);
  }
  ContributionQueue::Decision decision = queue_->Next(version_);
  idle_ = IsNothing(decision);
  if (std::holds_alternative<ChunkUpdate>(decision)) {
    updating_ = std::get<ChunkUpdate>(std::move(decision));
  } else if (OutcomeIn(decision) != nullptr) {
    outcomes->push_back(*OutcomeIn(decision));
  }
  return std::nullopt;
}

std::vector<ChunkUpdate> UnreliableNetwork::Drain(
    std::vector<ContributionOutcome>* outcomes) {
  std::vector<ChunkUpdate> updates;
  do {
    std::optional<ChunkUpdate> update = Tick(outcomes);
    if (update.has_value()) updates.push_back(*std::move(update));
  } while (!in_flight_.empty() || updating_.has_value() || !idle_);
  return updates;
}

}  // namespace tributary
