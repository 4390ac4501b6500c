#include "server/leaf_shares.h"

#include <algorithm>
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

int64_t Sum(const std::vector<int64_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

// The best of all ways to deal, by trying each that gives everybody a leaf, if
// there are enough.
double BruteForce(int64_t leaves, const std::vector<WorkerPace>& paces) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> shares(paces.size(), 0);
  const int64_t least = leaves >= static_cast<int64_t>(paces.size()) ? 1 : 0;
  const std::function<void(size_t, int64_t)> deal = [&](size_t w,
                                                        int64_t left) {
    if (w + 1 == paces.size()) {
      if (left < least) return;
      shares[w] = left;
      double longest = 0;
      for (size_t i = 0; i < paces.size(); ++i) {
        int64_t rounds = 0;
        for (int64_t done = 0; done < shares[i]; done += paces[i].threads) {
          ++rounds;
        }
        longest = std::max(longest,
                           static_cast<double>(rounds) * paces[i].leaf_seconds);
      }
      best = std::min(best, longest);
      return;
    }
    for (int64_t share = least; share <= left; ++share) {
      shares[w] = share;
      deal(w + 1, left - share);
    }
  };
  deal(0, leaves);
  return best;
}

TEST(LeafShares, EqualSharesDifferByOneAtMost) {
  for (int64_t leaves = 1; leaves <= 16; leaves *= 2) {
    for (int64_t workers = 1; workers <= leaves; ++workers) {
      const std::vector<int64_t> shares = EqualShares(leaves, workers);
      ASSERT_EQ(shares.size(), workers);
      EXPECT_EQ(Sum(shares), leaves);
      EXPECT_LE(*std::max_element(shares.begin(), shares.end()) -
                    *std::min_element(shares.begin(), shares.end()),
                1);
    }
  }
  EXPECT_THAT(EqualShares(2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(EqualShares(0, 2), ElementsAre(0, 0));
  EXPECT_TRUE(EqualShares(4, 0).empty());
}

TEST(LeafShares, NoOtherSharesAreFasterThanTheFastest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-2, 2);
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t leaves = 1 << random() % 4;
    std::vector<WorkerPace> paces(1 + random() % 4);
    for (WorkerPace& pace : paces) {
      pace.leaf_seconds = std::exp2(exponent(random));
      pace.threads = 1 + static_cast<int>(random() % 3);
    }
    const std::vector<int64_t> shares = FastestShares(leaves, paces);
    ASSERT_EQ(shares.size(), paces.size());
    EXPECT_EQ(Sum(shares), leaves);
    EXPECT_DOUBLE_EQ(SecondsForAll(shares, paces), BruteForce(leaves, paces));
  }
}

TEST(LeafShares, ThreadsTakeWholeLeaves) {
  const WorkerPace pace = {/*leaf_seconds=*/2, /*threads=*/4};
  EXPECT_EQ(SecondsFor(0, pace), 0);
  EXPECT_EQ(SecondsFor(1, pace), 2);
  EXPECT_EQ(SecondsFor(4, pace), 2);
  EXPECT_EQ(SecondsFor(5, pace), 4);
}

TEST(LeafShares, GivesTheFasterMoreAndEverybodyOne) {
  EXPECT_THAT(FastestShares(4, {{1, 1}, {3, 1}}), ElementsAre(3, 1));
  EXPECT_THAT(FastestShares(4, {{9, 1}, {1, 1}}), ElementsAre(1, 3));
  EXPECT_THAT(FastestShares(2, {{9, 1}, {1, 1}}), ElementsAre(1, 1));
  EXPECT_THAT(FastestShares(2, {{9, 1}, {1, 1}, {3, 1}}), ElementsAre(0, 2, 0));
  EXPECT_THAT(FastestShares(8, {{1, 3}, {1, 1}}), ElementsAre(6, 2));
}

TEST(LeafShares, NoiseChangesNothing) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  for (const int64_t leaves : {4, 16, 64}) {
    for (const int64_t workers : {2, 3, 4}) {
      const std::vector<int64_t> equal = EqualShares(leaves, workers);
      for (int trial = 0; trial < 100; ++trial) {
        std::vector<WorkerPace> paces(workers);
        for (WorkerPace& pace : paces) pace.leaf_seconds = noise(random);
        EXPECT_EQ(ChooseShares(leaves, paces), equal);
        EXPECT_FALSE(SharesAreSlow(equal, paces));
      }
    }
  }
}

TEST(LeafShares, ChangesOnlyWhatIsATenthSlower) {
  // 32 leaves each, the second worker slower: the fastest would take 64 r /
  // (1 + r), a tenth less than 32 r from r = 1.2 on.
  EXPECT_FALSE(SharesAreSlow({32, 32}, {{1, 1}, {1.15, 1}}));
  EXPECT_TRUE(SharesAreSlow({32, 32}, {{1, 1}, {1.25, 1}}));
  EXPECT_THAT(ChooseShares(64, {{1, 1}, {1.05, 1}}), ElementsAre(32, 32));
}

TEST(LeafShares, WhatIsChosenIsNotSlow) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<WorkerPace> paces(1 + random() % 6);
    for (WorkerPace& pace : paces)
      pace.leaf_seconds = std::exp2(exponent(random));
    EXPECT_FALSE(SharesAreSlow(ChooseShares(16, paces), paces));
  }
}

}  // namespace
}  // namespace tributary
