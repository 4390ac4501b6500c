#include "server/store/consistency_policy.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr int kLeaves = 8;

JobSpec Job(const std::string& consistency) {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(kLeaves);
  const absl::Status status = SetField(
      &job, "exchange.parameter_server.consistency={" + consistency + "}");
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

// One element: leaf m of any step is 2^m, so a sum says which leaves it has.
class OneNumber final : public GradientSource {
 public:
  explicit OneNumber(float value) : value_(value) {}
  const float* Read(int64_t, int64_t, float*) const override { return &value_; }

 private:
  const float value_;
};

constexpr float kWholeBatch = (1 << kLeaves) - 1;

NodeSum SumOfLeaves(int begin, int end) {
  NodeSum sum;
  float value = 0;
  for (int leaf = begin; leaf < end; ++leaf) value += 1 << leaf;
  sum.gradient = std::make_shared<OneNumber>(value);
  sum.sample_count = end - begin;
  return sum;
}

NodeSum SumOfNode(int node) {
  int begin = node;
  int end = node + 1;
  while (begin < kLeaves) {
    begin *= 2;
    end *= 2;
  }
  return SumOfLeaves(begin - kLeaves, end - kLeaves);
}

IncomingSum Ordered(int64_t step, int node) {
  IncomingSum sum;
  sum.step = step;
  sum.node = node;
  sum.sum = SumOfNode(node);
  return sum;
}

IncomingSum Whole(int64_t step, int64_t base_version) {
  IncomingSum sum = Ordered(step, 1);
  sum.base_version = base_version;
  return sum;
}

bool IsNothing(const ConsistencyPolicy::Decision& decision) {
  return std::holds_alternative<std::monostate>(decision);
}

void ExpectWhole(const ChunkUpdate& update) {
  EXPECT_EQ(update.sum.sample_count(), kLeaves);
  const float* half = nullptr;
  const float* other_half = nullptr;
  update.sum.Read(0, 1, &half, &other_half);
  EXPECT_EQ(*half + (other_half == nullptr ? 0 : *other_half), kWholeBatch);
}

TEST(ConsistencyPolicyTest, SynchronousTakesOneStepAtATime) {
  const auto policy = ConsistencyPolicy::Create(Job(""), /*steps=*/2);
  EXPECT_TRUE(policy->Add(0, Ordered(0, 2)).ok());
  EXPECT_TRUE(IsNothing(policy->Next(0)));
  EXPECT_EQ(policy->Add(0, Ordered(1, 1)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(policy->Add(0, Ordered(0, 3)).ok());
  const auto decision = policy->Next(0);
  ASSERT_TRUE(std::holds_alternative<ChunkUpdate>(decision));
  ExpectWhole(std::get<ChunkUpdate>(decision));
  // While the update is made, and after it: duplicates.
  EXPECT_TRUE(policy->Add(0, Ordered(0, 1)).ok());
  EXPECT_TRUE(IsNothing(policy->Next(1)));
  EXPECT_TRUE(policy->Add(1, Ordered(0, 1)).ok());
  EXPECT_TRUE(IsNothing(policy->Next(1)));
  // There are two steps.
  EXPECT_THAT(
      policy->Add(2, Ordered(2, 1)),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          testing::HasSubstr(
              "a contribution to step 2 comes too early at version 2 of 2")));
}

TEST(ConsistencyPolicyTest, StaleSynchronousHoldsStepsThatAreEarly) {
  const auto policy =
      ConsistencyPolicy::Create(Job("stale_synchronous { staleness: 2 }"), 10);
  EXPECT_TRUE(policy->Add(0, Ordered(2, 1)).ok());
  EXPECT_TRUE(policy->Add(0, Ordered(1, 1)).ok());
  EXPECT_THAT(
      policy->Add(0, Ordered(3, 1)),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          testing::HasSubstr(
              "a contribution to step 3 comes too early at version 0 of 10")));
  EXPECT_TRUE(IsNothing(policy->Next(0)));
  EXPECT_TRUE(policy->Add(0, Ordered(0, 1)).ok());
  for (int64_t version = 0; version < 3; ++version) {
    const auto decision = policy->Next(version);
    ASSERT_TRUE(std::holds_alternative<ChunkUpdate>(decision));
    EXPECT_EQ(std::get<ChunkUpdate>(decision).step, version);
    ExpectWhole(std::get<ChunkUpdate>(decision));
  }
  EXPECT_TRUE(IsNothing(policy->Next(3)));
}

TEST(ConsistencyPolicyTest, StaleSynchronousWithoutStalenessIsSynchronous) {
  const auto policy =
      ConsistencyPolicy::Create(Job("stale_synchronous { staleness: 0 }"), 10);
  EXPECT_THAT(
      policy->Add(0, Ordered(1, 1)),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          testing::HasSubstr(
              "a contribution to step 1 comes too early at version 0 of 10")));
  EXPECT_EQ(UsefulVersions(Job("stale_synchronous { staleness: 0 }")), 2);
  EXPECT_EQ(UsefulVersions(Job("stale_synchronous { staleness: 1 }")), 1);
  EXPECT_EQ(UsefulVersions(Job("synchronous {}")), 2);
  EXPECT_EQ(UsefulVersions(Job("local_steps {}")), 2);
  EXPECT_EQ(UsefulVersions(Job("asynchronous {}")), 1);
}

TEST(ConsistencyPolicyTest, AsynchronousAppliesInTheOrderOfArrival) {
  const auto policy =
      ConsistencyPolicy::Create(Job("asynchronous { max_staleness: 1 }"), 10);
  EXPECT_TRUE(policy->Add(0, Whole(7, 0)).ok());
  EXPECT_TRUE(policy->Add(0, Whole(3, 0)).ok());
  auto decision = policy->Next(0);
  ASSERT_TRUE(std::holds_alternative<ChunkUpdate>(decision));
  EXPECT_EQ(std::get<ChunkUpdate>(decision).step, 7);
  EXPECT_EQ(std::get<ChunkUpdate>(decision).staleness, 0);
  ExpectWhole(std::get<ChunkUpdate>(decision));
  decision = policy->Next(1);
  ASSERT_TRUE(std::holds_alternative<ChunkUpdate>(decision));
  EXPECT_EQ(std::get<ChunkUpdate>(decision).step, 3);
  EXPECT_EQ(std::get<ChunkUpdate>(decision).staleness, 1);
  EXPECT_TRUE(IsNothing(policy->Next(2)));
}

TEST(ConsistencyPolicyTest, AsynchronousAnswersWhatItDoesNotApply) {
  const auto policy =
      ConsistencyPolicy::Create(Job("asynchronous { max_staleness: 1 }"), 10);
  EXPECT_TRUE(policy->Add(5, Whole(4, 3)).ok());
  auto decision = policy->Next(5);
  ASSERT_TRUE(std::holds_alternative<Rejection>(decision));
  EXPECT_EQ(std::get<Rejection>(decision).step, 4);
  EXPECT_TRUE(std::get<Rejection>(decision).refused);
  EXPECT_EQ(std::get<Rejection>(decision).age, 2);
  // Computed again: taken. And once more: a duplicate, however old.
  EXPECT_TRUE(policy->Add(5, Whole(4, 4)).ok());
  decision = policy->Next(5);
  ASSERT_TRUE(std::holds_alternative<ChunkUpdate>(decision));
  EXPECT_TRUE(policy->Add(6, Whole(4, 0)).ok());
  decision = policy->Next(6);
  ASSERT_TRUE(std::holds_alternative<Rejection>(decision));
  EXPECT_FALSE(std::get<Rejection>(decision).refused);
}

TEST(ConsistencyPolicyTest, AsynchronousTakesWholeBatchesOfTheJobOnly) {
  const auto policy = ConsistencyPolicy::Create(Job("asynchronous {}"), 10);
  EXPECT_EQ(policy->Add(-1, Whole(0, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(policy->Add(3, Whole(10, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(policy->Add(3, Whole(0, 4)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(policy->Add(3, Whole(0, -1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(policy->Add(3, Ordered(0, 2)).code(),
            absl::StatusCode::kInvalidArgument);
}

// A chunk whose updates take a while, and a network that delays, reorders and
// repeats whatever is sent. Time is the number of events.
class Network {
 public:
  Network(const JobSpec& job, int64_t steps, uint32_t seed)
      : random_(seed), policy_(ConsistencyPolicy::Create(job, steps)) {}

  int64_t version() const { return version_; }
  uint32_t Random(uint32_t below) { return random_() % below; }

  void Send(const IncomingSum& sum) {
    under_way_.push_back(sum);
    if (Random(4) == 0) under_way_.push_back(sum);
  }

  // Something happens. What was applied, if anything was.
  std::optional<ChunkUpdate> Tick(std::vector<Rejection>* rejections) {
    if (!under_way_.empty() && Random(2) == 0) {
      const size_t i = Random(static_cast<uint32_t>(under_way_.size()));
      const absl::Status status = policy_->Add(version_, under_way_[i]);
      EXPECT_TRUE(status.ok()) << status;
      under_way_.erase(under_way_.begin() + static_cast<int64_t>(i));
    }
    if (updating_.has_value()) {
      if (Random(3) != 0) return std::nullopt;
      ++version_;
      return std::exchange(updating_, std::nullopt);
    }
    ConsistencyPolicy::Decision decision = policy_->Next(version_);
    if (std::holds_alternative<ChunkUpdate>(decision)) {
      updating_ = std::get<ChunkUpdate>(std::move(decision));
    } else if (std::holds_alternative<Rejection>(decision)) {
      rejections->push_back(std::get<Rejection>(decision));
    }
    return std::nullopt;
  }

 private:
  std::mt19937 random_;
  const std::unique_ptr<ConsistencyPolicy> policy_;
  int64_t version_ = 0;
  std::optional<ChunkUpdate> updating_;
  std::vector<IncomingSum> under_way_;
};

// Workers send random nodes of open steps until every leaf was sent, whole
// subtrees and single leaves, overlapping as after a death.
void CheckOrdered(const JobSpec& job, int64_t staleness, uint32_t seed) {
  constexpr int64_t kSteps = 12;
  Network network(job, kSteps, seed);
  int64_t applied = 0;
  std::vector<Rejection> rejections;
  for (int events = 0; applied < kSteps; ++events) {
    ASSERT_LT(events, 100000);
    // As far as an honest worker may run ahead, and what it may repeat.
    const int64_t newest = std::min(network.version() + staleness, kSteps - 1);
    const int64_t step = std::max<int64_t>(
        0, newest - network.Random(static_cast<uint32_t>(staleness) + 2));
    network.Send(
        Ordered(step, 1 + static_cast<int>(network.Random(2 * kLeaves - 1))));
    const auto update = network.Tick(&rejections);
    if (!update.has_value()) continue;
    EXPECT_EQ(update->step, applied);
    EXPECT_EQ(update->staleness, 0);
    ExpectWhole(*update);
    ++applied;
  }
  EXPECT_TRUE(rejections.empty());
  EXPECT_EQ(network.version(), kSteps);
}

TEST(ConsistencyPolicyTest, OrderedModesApplyEachLeafOfEachStepOnceAndInOrder) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    CheckOrdered(Job(""), 0, seed);
    CheckOrdered(Job("stale_synchronous { staleness: 1 }"), 1, seed);
    CheckOrdered(Job("stale_synchronous { staleness: 5 }"), 5, seed);
  }
}

// Workers hold steps until they are answered; some leave with theirs, which
// others take.
void CheckAsynchronous(int64_t max_staleness, uint32_t seed) {
  constexpr int64_t kSteps = 40;
  Network network(Job("asynchronous { max_staleness: " +
                      std::to_string(max_staleness) + " }"),
                  kSteps, seed);
  // A step that is computed: from which version its gradient is.
  std::map<int64_t, int64_t> computing;
  std::set<int64_t> unleased;
  for (int64_t step = 0; step < kSteps; ++step) unleased.insert(step);
  std::set<int64_t> applied;
  std::set<int64_t> refused;
  std::vector<Rejection> rejections;
  for (int events = 0; static_cast<int64_t>(applied.size()) < kSteps;
       ++events) {
    ASSERT_LT(events, 1000000);
    if (computing.size() < 4 && !unleased.empty()) {
      computing[*unleased.begin()] = network.version();
      unleased.erase(unleased.begin());
    }
    if (!computing.empty() && network.Random(4) == 0) {
      const auto done =
          std::next(computing.begin(),
                    network.Random(static_cast<uint32_t>(computing.size())));
      // A worker that dies now may have sent it or not, and another begins.
      const bool dies = network.Random(8) == 0;
      if (!dies || network.Random(2) == 0) {
        network.Send(Whole(done->first, done->second));
      }
      if (dies) unleased.insert(done->first);
      computing.erase(done);
    }
    const auto update = network.Tick(&rejections);
    for (const Rejection& rejection : rejections) {
      if (!rejection.refused) {
        // It is applied, or will be at once: the update is under way.
        continue;
      }
      EXPECT_GT(rejection.age, max_staleness);
      EXPECT_EQ(applied.count(rejection.step), 0u);
      refused.insert(rejection.step);
      if (computing.count(rejection.step) == 0) {
        unleased.insert(rejection.step);
      }
    }
    rejections.clear();
    if (!update.has_value()) continue;
    EXPECT_TRUE(applied.insert(update->step).second)
        << "step " << update->step << " twice";
    EXPECT_LE(update->staleness, max_staleness);
    EXPECT_GE(update->staleness, 0);
    ExpectWhole(*update);
  }
  EXPECT_EQ(network.version(), kSteps);
  if (max_staleness == 0) {
    EXPECT_FALSE(refused.empty());
  }
}

TEST(ConsistencyPolicyTest,
     AsynchronousAppliesEachStepOnceAndNoneThatIsTooOld) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    for (const int64_t max_staleness : {0, 1, 3, 100}) {
      CheckAsynchronous(max_staleness, seed);
    }
  }
}

}  // namespace
}  // namespace tributary
