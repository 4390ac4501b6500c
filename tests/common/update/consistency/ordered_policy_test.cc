#include "common/update/consistency/ordered_policy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/consistency/contributions.h"
#include "tests/common/update/consistency/policy_conformance.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

INSTANTIATE_TEST_SUITE_P(
    OrderedModes, ConsistencyPolicyConformanceTest,
    testing::Values(
        ConsistencyMode{"Synchronous", ""},
        ConsistencyMode{"Staleness0", "stale_synchronous { staleness: 0 }"},
        ConsistencyMode{"Staleness1", "stale_synchronous { staleness: 1 }"},
        ConsistencyMode{"Staleness5", "stale_synchronous { staleness: 5 }"},
        ConsistencyMode{"LocalSteps", "local_steps {}"}),
    ModeName);

TEST(OrderedPolicyTest, SynchronousTakesOneStepAtATime) {
  const auto queue = QueueOf("", /*steps=*/2);
  EXPECT_TRUE(queue->Add(0, ContributionOf(0, 2)).ok());
  EXPECT_TRUE(IsNothing(queue->Next(0)));
  EXPECT_THAT(queue->Add(0, ContributionOf(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("step 1 comes too early")));
  EXPECT_TRUE(queue->Add(0, ContributionOf(0, 3)).ok());
  const auto decision = queue->Next(0);
  ASSERT_NE(UpdateIn(decision), nullptr);
  ExpectEachLeafOnce(*UpdateIn(decision));
  EXPECT_EQ(UpdateIn(decision)->learning_rate_divisor, 1);
  // While the update is made, and after it: duplicates.
  EXPECT_TRUE(queue->Add(0, ContributionOf(0, 1)).ok());
  EXPECT_TRUE(IsNothing(queue->Next(1)));
  EXPECT_TRUE(queue->Add(1, ContributionOf(0, 1)).ok());
  EXPECT_TRUE(IsNothing(queue->Next(1)));
  // There are two steps.
  EXPECT_THAT(queue->Add(2, ContributionOf(2, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("step 2 comes too early")));
}

TEST(OrderedPolicyTest, SaysWhichMicroBatchIsMissing) {
  const auto queue = QueueOf("stale_synchronous { staleness: 2 }", /*steps=*/9);
  EXPECT_EQ(queue->FirstMissing(-1), std::nullopt);
  EXPECT_EQ(queue->FirstMissing(0), 0);
  EXPECT_TRUE(queue->Add(0, ContributionOf(0, 2)).ok());
  EXPECT_TRUE(queue->Add(0, ContributionOf(1, 3)).ok());
  EXPECT_EQ(queue->FirstMissing(0), kPolicyLeaves / 2);
  EXPECT_EQ(queue->FirstMissing(1), 0);
  queue->DropFrom(/*contributor=*/0);
  EXPECT_EQ(queue->FirstMissing(0), 0);
  EXPECT_EQ(queue->FirstMissing(9), std::nullopt);
}

TEST(OrderedPolicyTest, BoundedStalenessHoldsStepsThatAreEarly) {
  const auto queue = QueueOf("stale_synchronous { staleness: 2 }", 10);
  EXPECT_TRUE(queue->Add(0, ContributionOf(2, 1)).ok());
  EXPECT_TRUE(queue->Add(0, ContributionOf(1, 1)).ok());
  EXPECT_THAT(queue->Add(0, ContributionOf(3, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("step 3 comes too early")));
  EXPECT_TRUE(IsNothing(queue->Next(0)));
  EXPECT_TRUE(queue->Add(0, ContributionOf(0, 1)).ok());
  for (int64_t version = 0; version < 3; ++version) {
    const auto decision = queue->Next(version);
    ASSERT_NE(UpdateIn(decision), nullptr);
    EXPECT_EQ(UpdateIn(decision)->step, version);
    ExpectEachLeafOnce(*UpdateIn(decision));
  }
  EXPECT_TRUE(IsNothing(queue->Next(3)));
}

TEST(OrderedPolicyTest, BoundedStalenessOf0IsSynchronous) {
  const auto queue = QueueOf("stale_synchronous { staleness: 0 }", 10);
  EXPECT_THAT(queue->Add(0, ContributionOf(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("step 1 comes too early")));
}

TEST(OrderedPolicyTest, TwoVersionsAreOfUseUnlessWorkersRunAhead) {
  const auto useful = [](const std::string& consistency) {
    return PolicyOf(consistency, /*steps=*/1)->useful_versions();
  };
  EXPECT_EQ(useful("stale_synchronous { staleness: 0 }"), 2);
  EXPECT_EQ(useful("stale_synchronous { staleness: 1 }"), 1);
  EXPECT_EQ(useful("synchronous {}"), 2);
  EXPECT_EQ(useful("local_steps {}"), 2);
}

// Workers send random nodes of open steps until every leaf was sent, whole
// subtrees and single leaves, overlapping as after a reassignment.
void ExpectStepsInOrder(const std::string& consistency, int64_t staleness,
                        uint32_t seed) {
  constexpr int64_t kSteps = 12;
  UnreliableNetwork network(QueueOf(consistency, kSteps), seed);
  int64_t applied = 0;
  std::vector<ContributionOutcome> outcomes;
  for (int events = 0; applied < kSteps; ++events) {
    ASSERT_LT(events, 100000);
    // As far as an honest worker may run ahead, and what it may repeat.
    const int64_t newest = std::min(network.version() + staleness, kSteps - 1);
    const int64_t step = std::max<int64_t>(
        0, newest - network.Random(static_cast<uint32_t>(staleness) + 2));
    network.Send(ContributionOf(
        step, 1 + static_cast<int>(network.Random(2 * kPolicyLeaves - 1))));
    const std::optional<ChunkUpdate> update = network.Tick(&outcomes);
    if (!update.has_value()) continue;
    EXPECT_EQ(update->step, applied);
    EXPECT_FALSE(update->outcome.has_value());
    ExpectEachLeafOnce(*update);
    ++applied;
  }
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(network.version(), kSteps);
}

TEST(OrderedPolicyTest, AppliesEachLeafOfEachStepOnceAndInOrder) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    ExpectStepsInOrder("", 0, seed);
    ExpectStepsInOrder("stale_synchronous { staleness: 1 }", 1, seed);
    ExpectStepsInOrder("stale_synchronous { staleness: 5 }", 5, seed);
  }
}

}  // namespace
}  // namespace tributary
