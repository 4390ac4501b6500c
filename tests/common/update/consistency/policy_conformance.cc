#include "tests/common/update/consistency/policy_conformance.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/exchange_traits.h"
#include "gmock/gmock.h"
#include "tests/common/update/consistency/contributions.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr int64_t kSenders = 3;

// Workers that keep to the mode: they contribute to steps that they can be at,
// as whole batches or as nodes of the tree, overlapping as after a
// reassignment, and repeat what was refused.
NodeSum HonestContribution(const ExchangeTraits& traits, int64_t steps,
                           const std::set<int64_t>& applied,
                           UnreliableNetwork* network) {
  const auto random = [network](int64_t below) {
    return static_cast<int64_t>(network->Random(static_cast<uint32_t>(below)));
  };
  NodeSum sum;
  if (traits.whole_batches) {
    std::vector<int64_t> open;
    for (int64_t step = 0; step < steps; ++step) {
      if (applied.count(step) == 0) open.push_back(step);
    }
    sum = WholeBatch(open[random(static_cast<int64_t>(open.size()))],
                     network->version());
  } else {
    const int64_t newest =
        std::min(network->version() + traits.staleness, steps - 1);
    const int64_t step =
        std::max<int64_t>(0, newest - random(traits.staleness + 2));
    sum = ContributionOf(step,
                         1 + static_cast<int>(random(2 * kPolicyLeaves - 1)));
  }
  sum.sender = 1 + random(kSenders);
  return sum;
}

TEST_P(ConsistencyPolicyConformanceTest, AppliesEachStepExactlyOnce) {
  constexpr int64_t kSteps = 20;
  const ExchangeTraits traits =
      ResolveExchange(JobWithConsistency(GetParam().consistency));
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    UnreliableNetwork network(QueueOf(GetParam().consistency, kSteps), seed);
    std::set<int64_t> applied;
    std::vector<ContributionOutcome> outcomes;
    size_t seen = 0;
    for (int events = 0; static_cast<int64_t>(applied.size()) < kSteps;
         ++events) {
      ASSERT_LT(events, 100000);
      if (network.in_flight() < 8) {
        network.Send(HonestContribution(traits, kSteps, applied, &network));
      }
      const std::optional<ChunkUpdate> update = network.Tick(&outcomes);
      for (; seen < outcomes.size(); ++seen) {
        if (outcomes[seen].refused) {
          EXPECT_EQ(applied.count(outcomes[seen].step), 0u);
        }
      }
      if (!update.has_value()) continue;
      EXPECT_TRUE(applied.insert(update->step).second)
          << "step " << update->step << " twice";
      EXPECT_EQ(static_cast<int64_t>(applied.size()), network.version());
      ExpectEachLeafOnce(*update);
    }
    EXPECT_TRUE(network.Drain(&outcomes).empty());
    EXPECT_EQ(*applied.begin(), 0);
    EXPECT_EQ(*applied.rbegin(), kSteps - 1);
  }
}

TEST_P(ConsistencyPolicyConformanceTest, AnswersEachContributionOrNone) {
  constexpr int64_t kSteps = 10;
  const ExchangeTraits traits =
      ResolveExchange(JobWithConsistency(GetParam().consistency));
  UnreliableNetwork network(QueueOf(GetParam().consistency, kSteps),
                            /*seed=*/1);
  std::set<int64_t> applied;
  std::vector<ContributionOutcome> outcomes;
  while (static_cast<int64_t>(applied.size()) < kSteps) {
    if (network.in_flight() < 8) {
      network.Send(HonestContribution(traits, kSteps, applied, &network));
    }
    const std::optional<ChunkUpdate> update = network.Tick(&outcomes);
    if (!update.has_value()) continue;
    applied.insert(update->step);
    if (update->outcome.has_value()) {
      EXPECT_EQ(update->outcome->step, update->step);
      EXPECT_FALSE(update->outcome->refused);
      outcomes.push_back(*update->outcome);
    }
  }
  network.Drain(&outcomes);
  EXPECT_EQ(static_cast<int64_t>(outcomes.size()),
            traits.contributions_answered ? network.arrived() : 0);
  for (const ContributionOutcome& outcome : outcomes) {
    EXPECT_GE(outcome.receiver, 1);
    EXPECT_LE(outcome.receiver, kSenders);
  }
}

TEST_P(ConsistencyPolicyConformanceTest, RefusesStepsBeyondTheJob) {
  const auto queue = QueueOf(GetParam().consistency, /*steps=*/1);
  EXPECT_THAT(
      queue->Add(/*version=*/0, WholeBatch(/*step=*/1, /*base_version=*/0)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               testing::HasSubstr("a contribution to step 1")));
  EXPECT_TRUE(IsNothing(queue->Next(0)));
  // Nothing has changed: the job's step is still applied.
  EXPECT_TRUE(queue->Add(0, WholeBatch(0, 0)).ok());
  EXPECT_NE(UpdateIn(queue->Next(0)), nullptr);
}

TEST_P(ConsistencyPolicyConformanceTest, RefusesContributionsBeforeVersion0) {
  const auto queue = QueueOf(GetParam().consistency, /*steps=*/4);
  EXPECT_THAT(queue->Add(/*version=*/-1, WholeBatch(0, 0)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("at version -1")));
  EXPECT_TRUE(IsNothing(queue->Next(-1)));
}

TEST_P(ConsistencyPolicyConformanceTest, ContinuesAfterTheFirstSteps) {
  const auto queue =
      QueueOf(GetParam().consistency, /*steps=*/8, /*first_step=*/5);
  EXPECT_TRUE(queue->Add(5, WholeBatch(/*step=*/4, /*base_version=*/5)).ok());
  EXPECT_TRUE(queue->Add(5, WholeBatch(5, 5)).ok());
  ContributionQueue::Decision decision = queue->Next(5);
  if (const ContributionOutcome* outcome = OutcomeIn(decision)) {
    EXPECT_EQ(outcome->step, 4);
    EXPECT_FALSE(outcome->refused);
    decision = queue->Next(5);
  }
  const ChunkUpdate* update = UpdateIn(decision);
  ASSERT_NE(update, nullptr);
  EXPECT_EQ(update->step, 5);
  EXPECT_TRUE(IsNothing(queue->Next(6)));
}

TEST_P(ConsistencyPolicyConformanceTest, QueuesAreIndependentOfThePolicy) {
  auto policy = PolicyOf(GetParam().consistency, /*steps=*/2);
  const auto one = policy->NewQueue();
  const auto other = policy->NewQueue();
  EXPECT_GE(policy->useful_versions(), 1);
  EXPECT_LE(policy->useful_versions(), 2);
  policy.reset();
  EXPECT_TRUE(one->Add(0, WholeBatch(0, 0)).ok());
  EXPECT_TRUE(IsNothing(other->Next(0)));
  EXPECT_NE(UpdateIn(one->Next(0)), nullptr);
}

}  // namespace
}  // namespace tributary
