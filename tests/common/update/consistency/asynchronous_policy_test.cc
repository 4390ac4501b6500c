#include "common/update/consistency/asynchronous_policy.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
    Asynchronous, ConsistencyPolicyConformanceTest,
    testing::Values(
        ConsistencyMode{"MaxStaleness0", "asynchronous { max_staleness: 0 }"},
        ConsistencyMode{"MaxStaleness3", "asynchronous { max_staleness: 3 }"},
        ConsistencyMode{"Standard", "asynchronous {}"}),
    ModeName);

TEST(AsynchronousPolicyTest, AppliesInTheOrderOfArrival) {
  const auto queue = QueueOf("asynchronous { max_staleness: 1 }", 10);
  EXPECT_TRUE(queue->Add(0, WholeBatch(7, 0)).ok());
  EXPECT_TRUE(queue->Add(0, WholeBatch(3, 0)).ok());
  auto decision = queue->Next(0);
  ASSERT_NE(UpdateIn(decision), nullptr);
  EXPECT_EQ(UpdateIn(decision)->step, 7);
  EXPECT_EQ(UpdateIn(decision)->outcome->age, 0);
  ExpectEachLeafOnce(*UpdateIn(decision));
  decision = queue->Next(1);
  ASSERT_NE(UpdateIn(decision), nullptr);
  EXPECT_EQ(UpdateIn(decision)->step, 3);
  EXPECT_EQ(UpdateIn(decision)->outcome->age, 1);
  EXPECT_TRUE(IsNothing(queue->Next(2)));
}

TEST(AsynchronousPolicyTest, DropsTheContributionsOfAWorker) {
  const auto queue = QueueOf("asynchronous {}", 10);
  NodeSum of_another = WholeBatch(3, 0);
  of_another.contributor = 2;
  EXPECT_TRUE(queue->Add(0, WholeBatch(7, 0)).ok());
  EXPECT_TRUE(queue->Add(0, std::move(of_another)).ok());
  queue->DropFrom(/*contributor=*/0);
  const auto decision = queue->Next(0);
  ASSERT_NE(UpdateIn(decision), nullptr);
  EXPECT_EQ(UpdateIn(decision)->step, 3);
  EXPECT_TRUE(IsNothing(queue->Next(1)));
}

TEST(AsynchronousPolicyTest, AnswersWhatItDoesNotApply) {
  const auto queue = QueueOf("asynchronous { max_staleness: 1 }", 10);
  EXPECT_TRUE(queue->Add(5, WholeBatch(4, 3)).ok());
  auto decision = queue->Next(5);
  ASSERT_NE(OutcomeIn(decision), nullptr);
  EXPECT_EQ(OutcomeIn(decision)->step, 4);
  EXPECT_TRUE(OutcomeIn(decision)->refused);
  EXPECT_EQ(OutcomeIn(decision)->age, 2);
  // Computed again: taken. And once more: a duplicate, however old.
  EXPECT_TRUE(queue->Add(5, WholeBatch(4, 4)).ok());
  decision = queue->Next(5);
  ASSERT_NE(UpdateIn(decision), nullptr);
  EXPECT_TRUE(queue->Add(6, WholeBatch(4, 0)).ok());
  decision = queue->Next(6);
  ASSERT_NE(OutcomeIn(decision), nullptr);
  EXPECT_FALSE(OutcomeIn(decision)->refused);
}

TEST(AsynchronousPolicyTest, TakesWholeBatchesOfTheJobOnly) {
  const auto queue = QueueOf("asynchronous {}", 10);
  EXPECT_EQ(queue->Add(-1, WholeBatch(0, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(queue->Add(3, WholeBatch(10, 0)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(queue->Add(3, WholeBatch(0, 4)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(queue->Add(3, WholeBatch(0, -1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(queue->Add(3, ContributionOf(0, 2)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AsynchronousPolicyTest, OnlyTheNewestVersionIsOfUse) {
  EXPECT_EQ(PolicyOf("asynchronous {}", /*steps=*/1)->useful_versions(), 1);
}

TEST(AsynchronousPolicyTest, DividesTheRateByStalenessWhereAsked) {
  for (const bool asked : {false, true}) {
    const auto queue =
        QueueOf(asked ? "asynchronous { learning_rate_by_staleness: true }"
                      : "asynchronous {}",
                /*steps=*/10);
    for (int64_t version = 0; version < 4; ++version) {
      EXPECT_TRUE(queue->Add(version, WholeBatch(version, 0)).ok());
      const auto decision = queue->Next(version);
      ASSERT_NE(UpdateIn(decision), nullptr);
      EXPECT_EQ(UpdateIn(decision)->learning_rate_divisor,
                asked && version > 1 ? static_cast<double>(version) : 1);
    }
  }
}

// Workers hold steps until they are answered; some leave with theirs, which
// others take.
void CheckAsynchronous(int64_t max_staleness, uint32_t seed) {
  constexpr int64_t kSteps = 40;
  UnreliableNetwork network(QueueOf("asynchronous { max_staleness: " +
                                        std::to_string(max_staleness) + " }",
                                    kSteps),
                            seed);
  // A step that is computed: from which version its gradient is.
  std::map<int64_t, int64_t> computing;
  std::set<int64_t> unleased;
  for (int64_t step = 0; step < kSteps; ++step) unleased.insert(step);
  std::set<int64_t> applied;
  std::set<int64_t> refused;
  std::vector<ContributionOutcome> outcomes;
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
        network.Send(WholeBatch(done->first, done->second));
      }
      if (dies) unleased.insert(done->first);
      computing.erase(done);
    }
    const std::optional<ChunkUpdate> update = network.Tick(&outcomes);
    for (const ContributionOutcome& outcome : outcomes) {
      if (!outcome.refused) {
        // It is applied, or will be at once: the update is under way.
        continue;
      }
      EXPECT_GT(outcome.age, max_staleness);
      EXPECT_EQ(applied.count(outcome.step), 0u);
      refused.insert(outcome.step);
      if (computing.count(outcome.step) == 0) {
        unleased.insert(outcome.step);
      }
    }
    outcomes.clear();
    if (!update.has_value()) continue;
    EXPECT_TRUE(applied.insert(update->step).second)
        << "step " << update->step << " twice";
    EXPECT_LE(update->outcome->age, max_staleness);
    EXPECT_GE(update->outcome->age, 0);
    ExpectEachLeafOnce(*update);
  }
  EXPECT_EQ(network.version(), kSteps);
  if (max_staleness == 0) {
    EXPECT_FALSE(refused.empty());
  }
}

TEST(AsynchronousPolicyTest, AppliesEachStepOnceAndNoneThatIsTooOld) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    for (const int64_t max_staleness : {0, 1, 3, 100}) {
      CheckAsynchronous(max_staleness, seed);
    }
  }
}

}  // namespace
}  // namespace tributary
