#include "server/run_mode/step_leases.h"

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

TEST(StepLeasesTest, GivesStepsInOrderToThoseWhoAsked) {
  StepLeases leases(/*limit=*/10);
  leases.Request(7);
  leases.Request(8);
  leases.Request(7);
  EXPECT_THAT(leases.Grant(), ElementsAre(Pair(7, 0), Pair(8, 1), Pair(7, 2)));
  EXPECT_THAT(leases.Grant(), IsEmpty());
}

TEST(StepLeasesTest, BoundsTheRequestsOfAWorker) {
  StepLeases leases(/*limit=*/0);
  int requests = 0;
  while (requests < 1000 && leases.Request(1)) ++requests;
  EXPECT_GE(requests, 3);
  EXPECT_LT(requests, 1000);
  EXPECT_TRUE(leases.Request(2));
}

TEST(StepLeasesTest, GivesNoneBeyondTheLimitUntilItIsRaised) {
  StepLeases leases(/*limit=*/1);
  leases.Request(7);
  leases.Request(8);
  EXPECT_THAT(leases.Grant(), ElementsAre(Pair(7, 0)));
  EXPECT_THAT(leases.Grant(), IsEmpty());
  leases.SetLimit(3);
  EXPECT_THAT(leases.Grant(), ElementsAre(Pair(8, 1)));
}

TEST(StepLeasesTest, GivesTheStepsOfALostWorkerToOthersFirst) {
  StepLeases leases(/*limit=*/10);
  for (const int64_t worker : {1, 2, 1, 2}) leases.Request(worker);
  leases.Grant();
  leases.Complete(0);
  leases.Request(1);
  leases.Remove(1);  // It had 2, and a wish.
  leases.Request(2);
  leases.Request(2);
  EXPECT_THAT(leases.Grant(), ElementsAre(Pair(2, 2), Pair(2, 4)));
}

TEST(StepLeasesTest, AStepThatIsCompleteAfterAllIsNotGivenAgain) {
  StepLeases leases(/*limit=*/10);
  leases.Request(1);
  leases.Grant();
  leases.Remove(1);
  // Its contributions had arrived before it was lost.
  leases.Complete(0);
  leases.Request(2);
  EXPECT_THAT(leases.Grant(), ElementsAre(Pair(2, 1)));
}

// With a clock that only moves from one event to the next: a worker that is
// twice as slow takes half as many steps, and holds nobody up.
TEST(StepLeasesTest, AWorkerGetsAsManyStepsAsItCanCompute) {
  StepLeases leases(/*limit=*/300);
  const std::map<int64_t, int64_t> ticks_per_step = {{1, 1}, {2, 2}};
  std::map<int64_t, std::vector<int64_t>> held;
  std::map<int64_t, int64_t> completed;
  for (const auto& [worker, ticks] : ticks_per_step) {
    leases.Request(worker);
    leases.Request(worker);  // One to compute, one to read ahead.
  }
  for (const auto& [worker, step] : leases.Grant()) {
    held[worker].push_back(step);
  }
  int64_t now = 0;
  while (!held[1].empty() || !held[2].empty()) {
    ++now;
    for (const auto& [worker, ticks] : ticks_per_step) {
      if (now % ticks != 0 || held[worker].empty()) continue;
      leases.Complete(held[worker].front());
      held[worker].erase(held[worker].begin());
      ++completed[worker];
      leases.Request(worker);
    }
    for (const auto& [worker, step] : leases.Grant()) {
      held[worker].push_back(step);
    }
  }
  EXPECT_EQ(completed[1] + completed[2], 300);
  EXPECT_NEAR(completed[1], 200, 2);
  // 300 steps at one and a half in each tick.
  EXPECT_LE(now, 202);
}

// Whatever happens in whatever order: no step is held by two, none is lost.
TEST(StepLeasesTest, EveryStepIsCompletedOnceWhoeverComesAndGoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    constexpr int64_t kSteps = 20;
    StepLeases leases(/*limit=*/5);
    std::map<int64_t, int64_t> holder;
    std::set<int64_t> completed;
    int64_t newest = 3;  // Workers newest - 2 to newest are there.
    while (static_cast<int64_t>(completed.size()) < kSteps) {
      const int64_t worker = newest - static_cast<int64_t>(random() % 3);
      switch (random() % 5) {
        case 0:
          leases.Request(worker);
          break;
        case 1:
          leases.SetLimit(static_cast<int64_t>(random() % (kSteps + 1)));
          break;
        case 2:  // The oldest leaves, a new one comes.
          leases.Remove(newest - 2);
          for (auto it = holder.begin(); it != holder.end();) {
            it = it->second == newest - 2 ? holder.erase(it) : std::next(it);
          }
          ++newest;
          break;
        default:
          if (holder.empty()) break;
          const auto done = std::next(holder.begin(), random() % holder.size());
          EXPECT_TRUE(completed.insert(done->first).second);
          leases.Complete(done->first);
          holder.erase(done);
      }
      for (const auto& [to, step] : leases.Grant()) {
        EXPECT_GT(to, newest - 3);
        EXPECT_LT(step, kSteps);
        EXPECT_EQ(completed.count(step), 0u);
        EXPECT_TRUE(holder.emplace(step, to).second);
      }
      leases.SetLimit(5);
      if (completed.size() >= 5) leases.SetLimit(kSteps);
    }
  }
}

}  // namespace
}  // namespace tributary
