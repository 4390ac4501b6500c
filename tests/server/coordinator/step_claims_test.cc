#include "server/coordinator/step_claims.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(StepClaimsTest, GivesStepsInOrderToThoseWhoAsked) {
  StepClaims claims(/*limit=*/10);
  claims.Want(7);
  claims.Want(8);
  claims.Want(7);
  EXPECT_THAT(claims.Grant(), ElementsAre(Pair(7, 0), Pair(8, 1), Pair(7, 2)));
  EXPECT_THAT(claims.Grant(), IsEmpty());
}

TEST(StepClaimsTest, BoundsTheWishesOfAWorker) {
  StepClaims claims(/*limit=*/0);
  int wishes = 0;
  while (wishes < 1000 && claims.Want(1)) ++wishes;
  EXPECT_GE(wishes, 3);
  EXPECT_LT(wishes, 1000);
  EXPECT_TRUE(claims.Want(2));
}

TEST(StepClaimsTest, GivesNoneBeyondTheLimitUntilItIsRaised) {
  StepClaims claims(/*limit=*/1);
  claims.Want(7);
  claims.Want(8);
  EXPECT_THAT(claims.Grant(), ElementsAre(Pair(7, 0)));
  EXPECT_THAT(claims.Grant(), IsEmpty());
  claims.SetLimit(3);
  EXPECT_THAT(claims.Grant(), ElementsAre(Pair(8, 1)));
}

TEST(StepClaimsTest, GivesTheStepsOfALostWorkerToOthersFirst) {
  StepClaims claims(/*limit=*/10);
  for (const int64_t worker : {1, 2, 1, 2}) claims.Want(worker);
  claims.Grant();
  claims.Complete(0);
  claims.Want(1);
  claims.Remove(1);  // It had 2, and a wish.
  claims.Want(2);
  claims.Want(2);
  EXPECT_THAT(claims.Grant(), ElementsAre(Pair(2, 2), Pair(2, 4)));
}

TEST(StepClaimsTest, AStepThatIsCompleteAfterAllIsNotGivenAgain) {
  StepClaims claims(/*limit=*/10);
  claims.Want(1);
  claims.Grant();
  claims.Remove(1);
  // Its contributions had arrived before it was lost.
  claims.Complete(0);
  claims.Want(2);
  EXPECT_THAT(claims.Grant(), ElementsAre(Pair(2, 1)));
}

// With a clock that only moves from one event to the next: a worker that is
// twice as slow takes half as many steps, and holds nobody up.
TEST(StepClaimsTest, AWorkerGetsAsManyStepsAsItCanCompute) {
  StepClaims claims(/*limit=*/300);
  const std::map<int64_t, int64_t> ticks_per_step = {{1, 1}, {2, 2}};
  std::map<int64_t, std::vector<int64_t>> held;
  std::map<int64_t, int64_t> completed;
  for (const auto& [worker, ticks] : ticks_per_step) {
    claims.Want(worker);
    claims.Want(worker);  // One to compute, one to read ahead.
  }
  for (const auto& [worker, step] : claims.Grant()) {
    held[worker].push_back(step);
  }
  int64_t now = 0;
  while (!held[1].empty() || !held[2].empty()) {
    ++now;
    for (const auto& [worker, ticks] : ticks_per_step) {
      if (now % ticks != 0 || held[worker].empty()) continue;
      claims.Complete(held[worker].front());
      held[worker].erase(held[worker].begin());
      ++completed[worker];
      claims.Want(worker);
    }
    for (const auto& [worker, step] : claims.Grant()) {
      held[worker].push_back(step);
    }
  }
  EXPECT_EQ(completed[1] + completed[2], 300);
  EXPECT_NEAR(completed[1], 200, 2);
  // 300 steps at one and a half in each tick.
  EXPECT_LE(now, 202);
}

// Whatever happens in whatever order: no step is held by two, none is lost.
TEST(StepClaimsTest, EveryStepIsCompletedOnceWhoeverComesAndGoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    constexpr int64_t kSteps = 20;
    StepClaims claims(/*limit=*/5);
    std::map<int64_t, int64_t> holder;
    std::set<int64_t> completed;
    int64_t newest = 3;  // Workers newest - 2 to newest are there.
    while (static_cast<int64_t>(completed.size()) < kSteps) {
      const int64_t worker = newest - static_cast<int64_t>(random() % 3);
      switch (random() % 5) {
        case 0:
          claims.Want(worker);
          break;
        case 1:
          claims.SetLimit(static_cast<int64_t>(random() % (kSteps + 1)));
          break;
        case 2:  // The oldest leaves, a new one comes.
          claims.Remove(newest - 2);
          for (auto it = holder.begin(); it != holder.end();) {
            it = it->second == newest - 2 ? holder.erase(it) : std::next(it);
          }
          ++newest;
          break;
        default:
          if (holder.empty()) break;
          const auto done = std::next(holder.begin(), random() % holder.size());
          EXPECT_TRUE(completed.insert(done->first).second);
          claims.Complete(done->first);
          holder.erase(done);
      }
      for (const auto& [to, step] : claims.Grant()) {
        EXPECT_GT(to, newest - 3);
        EXPECT_LT(step, kSteps);
        EXPECT_EQ(completed.count(step), 0u);
        EXPECT_TRUE(holder.emplace(step, to).second);
      }
      claims.SetLimit(5);
      if (completed.size() >= 5) claims.SetLimit(kSteps);
    }
  }
}

}  // namespace
}  // namespace tributary
