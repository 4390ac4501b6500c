#include "server/membership/assignment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

int64_t Sum(const std::vector<int64_t>& assignment) {
  return std::accumulate(assignment.begin(), assignment.end(), int64_t{0});
}

// The time of the best of all assignments, by trying each that gives every
// worker a micro-batch, if there are enough.
double BruteForce(int64_t micro_batches, const std::vector<WorkerPace>& paces) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> assignment(paces.size(), 0);
  const int64_t least =
      micro_batches >= static_cast<int64_t>(paces.size()) ? 1 : 0;
  const std::function<void(size_t, int64_t)> assign = [&](size_t w,
                                                          int64_t left) {
    if (w + 1 == paces.size()) {
      if (left < least) return;
      assignment[w] = left;
      double longest = 0;
      for (size_t i = 0; i < paces.size(); ++i) {
        int64_t rounds = 0;
        for (int64_t done = 0; done < assignment[i]; done += paces[i].threads) {
          ++rounds;
        }
        longest = std::max(longest, static_cast<double>(rounds) *
                                        paces[i].micro_batch_seconds);
      }
      best = std::min(best, longest);
      return;
    }
    for (int64_t count = least; count <= left; ++count) {
      assignment[w] = count;
      assign(w + 1, left - count);
    }
  };
  assign(0, micro_batches);
  return best;
}

TEST(AssignmentTest, EqualAssignmentsDifferByOneAtMost) {
  for (int64_t micro_batches = 1; micro_batches <= 16; micro_batches *= 2) {
    for (int64_t workers = 1; workers <= micro_batches; ++workers) {
      const std::vector<int64_t> assignment =
          EqualAssignment(micro_batches, workers);
      ASSERT_EQ(assignment.size(), workers);
      EXPECT_EQ(Sum(assignment), micro_batches);
      EXPECT_LE(*std::max_element(assignment.begin(), assignment.end()) -
                    *std::min_element(assignment.begin(), assignment.end()),
                1);
    }
  }
  EXPECT_THAT(EqualAssignment(2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(EqualAssignment(0, 2), ElementsAre(0, 0));
  EXPECT_TRUE(EqualAssignment(4, 0).empty());
}

TEST(AssignmentTest, NoOtherAssignmentIsFasterThanTheFastest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-2, 2);
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t micro_batches = 1 << random() % 4;
    std::vector<WorkerPace> paces(1 + random() % 4);
    for (WorkerPace& pace : paces) {
      pace.micro_batch_seconds = std::exp2(exponent(random));
      pace.threads = 1 + static_cast<int>(random() % 3);
    }
    const std::vector<int64_t> assignment =
        FastestAssignment(micro_batches, {paces});
    ASSERT_EQ(assignment.size(), paces.size());
    EXPECT_EQ(Sum(assignment), micro_batches);
    EXPECT_DOUBLE_EQ(PredictSeconds(assignment, {paces}),
                     BruteForce(micro_batches, paces));
  }
}

TEST(AssignmentTest, ThreadsTakeWholeMicroBatches) {
  const StepCosts costs = {{{/*micro_batch_seconds=*/2, /*threads=*/4}}};
  EXPECT_EQ(PredictSeconds({0}, costs), 0);
  EXPECT_EQ(PredictSeconds({1}, costs), 2);
  EXPECT_EQ(PredictSeconds({4}, costs), 2);
  EXPECT_EQ(PredictSeconds({5}, costs), 4);
}

TEST(AssignmentTest, GivesTheFasterMoreAndEverybodyOne) {
  EXPECT_THAT(FastestAssignment(4, {{{1, 1}, {3, 1}}}), ElementsAre(3, 1));
  EXPECT_THAT(FastestAssignment(4, {{{9, 1}, {1, 1}}}), ElementsAre(1, 3));
  EXPECT_THAT(FastestAssignment(2, {{{9, 1}, {1, 1}}}), ElementsAre(1, 1));
  EXPECT_THAT(FastestAssignment(2, {{{9, 1}, {1, 1}, {3, 1}}}),
              ElementsAre(0, 2, 0));
  EXPECT_THAT(FastestAssignment(8, {{{1, 3}, {1, 1}}}), ElementsAre(6, 2));
}

TEST(AssignmentTest, CountsTheContributionsOfEachRun) {
  // Leaves 0 to 4 of 16 are two subtrees, 5 to 15 are three (5; 6 and 7; 8 to
  // 15). The new weights are one transfer more.
  EXPECT_DOUBLE_EQ(PredictSeconds({5, 11}, {{{1, 1}, {0.1, 1}}, 10}), 41.1);
  EXPECT_DOUBLE_EQ(PredictSeconds({5, 11}, {{{20, 1}, {0.1, 1}}, 10}), 130);
  EXPECT_DOUBLE_EQ(PredictSeconds({0, 16}, {{{1, 1}, {0.1, 1}}, 10}), 21.6);
}

TEST(AssignmentTest, DearTransfersMakeForFewContributions) {
  const std::vector<WorkerPace> workers = {{2, 1}, {1, 1}};
  EXPECT_THAT(FastestAssignment(16, {workers, 0}), ElementsAre(5, 11));
  EXPECT_THAT(FastestAssignment(16, {workers, 100}), ElementsAre(8, 8));
  // Never worse than without minding them, nor than any multiples.
  std::mt19937 random(4);
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (int trial = 0; trial < 300; ++trial) {
    StepCosts costs;
    costs.workers.resize(1 + random() % 4);
    for (WorkerPace& pace : costs.workers) {
      pace.micro_batch_seconds = std::exp2(exponent(random));
    }
    costs.transfer_seconds = std::exp2(exponent(random));
    const Assignment assignment = FastestAssignment(16, costs);
    EXPECT_EQ(Sum(assignment), 16);
    EXPECT_GT(*std::min_element(assignment.begin(), assignment.end()), 0);
    EXPECT_LE(PredictSeconds(assignment, costs),
              PredictSeconds(FastestAssignment(16, {costs.workers, 0}), costs));
  }
}

TEST(AssignmentTest, NobodyGetsNothing) {
  for (const double transfer_seconds : {0.0, 1.0}) {
    const StepCosts nobody = {{}, transfer_seconds};
    EXPECT_TRUE(FastestAssignment(16, nobody).empty());
    EXPECT_TRUE(ChooseAssignment(16, nobody).empty());
    EXPECT_FALSE(IsSlowAssignment({}, nobody));
  }
}

TEST(AssignmentTest, NoiseChangesNothing) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  for (const int64_t micro_batches : {4, 16, 64}) {
    for (const int64_t workers : {2, 3, 4}) {
      const std::vector<int64_t> equal =
          EqualAssignment(micro_batches, workers);
      for (int trial = 0; trial < 100; ++trial) {
        std::vector<WorkerPace> paces(workers);
        for (WorkerPace& pace : paces) pace.micro_batch_seconds = noise(random);
        EXPECT_EQ(ChooseAssignment(micro_batches, {paces}), equal);
        EXPECT_FALSE(IsSlowAssignment(equal, {paces}));
      }
    }
  }
}

TEST(AssignmentTest, ChangesOnlyWhatIsATenthSlower) {
  // 32 micro-batches each, the second worker slower: the fastest would take 64
  // r / (1 + r), a tenth less than 32 r from r = 1.2 on.
  EXPECT_FALSE(IsSlowAssignment({32, 32}, {{{1, 1}, {1.15, 1}}}));
  EXPECT_TRUE(IsSlowAssignment({32, 32}, {{{1, 1}, {1.25, 1}}}));
  EXPECT_THAT(ChooseAssignment(64, {{{1, 1}, {1.05, 1}}}), ElementsAre(32, 32));
}

TEST(AssignmentTest, WhatIsChosenIsNotSlow) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (int trial = 0; trial < 1000; ++trial) {
    StepCosts costs;
    costs.workers.resize(1 + random() % 6);
    for (WorkerPace& pace : costs.workers) {
      pace.micro_batch_seconds = std::exp2(exponent(random));
    }
    if (trial % 2 == 1) costs.transfer_seconds = std::exp2(exponent(random));
    EXPECT_FALSE(IsSlowAssignment(ChooseAssignment(16, costs), costs));
  }
}

}  // namespace
}  // namespace tributary
