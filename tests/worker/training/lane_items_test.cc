#include "worker/training/lane_items.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(LaneItemsTest, ALaneBeginsWithTheItemOfItsNumber) {
  LaneItems items({10, 11, 12}, /*lanes=*/2);
  EXPECT_EQ(items.lanes(), 2);
  EXPECT_THAT(items.InOrder(), ElementsAre(10, 11, 12));
  EXPECT_THAT(items.Take(1), Optional(11));
  EXPECT_THAT(items.Take(1), Optional(12));
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_EQ(items.Take(0), std::nullopt);
  EXPECT_EQ(items.Take(1), std::nullopt);
  EXPECT_EQ(items.First(1), 11);
}

TEST(LaneItemsTest, WhatALaneHasSeenIsItsOwn) {
  LaneItems items({10, 11, 12, 13}, /*lanes=*/2);
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_THAT(items.Peek(0), Optional(12));
  EXPECT_THAT(items.Take(1), Optional(11));
  EXPECT_THAT(items.Take(1), Optional(13));
  EXPECT_EQ(items.Peek(1), std::nullopt);
  EXPECT_THAT(items.Peek(0), Optional(12));
  EXPECT_THAT(items.Take(0), Optional(12));
  EXPECT_EQ(items.Peek(0), std::nullopt);
}

TEST(LaneItemsTest, NeighboursGoToOneLaneWhereAllAreDealt) {
  LaneItems items({10, 11, 12, 20, 21}, /*lanes=*/2, LaneItems::Deal::kAll);
  EXPECT_EQ(items.lanes(), 2);
  EXPECT_THAT(items.DealtTo(0), ElementsAre(10, 11));
  EXPECT_THAT(items.DealtTo(1), ElementsAre(12, 20, 21));
  EXPECT_EQ(items.First(1), 12);
  EXPECT_THAT(items.InOrder(), ElementsAre(10, 12, 11, 20, 21));
  for (const int64_t item : {12, 20, 21}) {
    EXPECT_THAT(items.Peek(1), Optional(item));
    EXPECT_THAT(items.Take(1), Optional(item));
  }
  // Nobody takes another lane's.
  EXPECT_EQ(items.Take(1), std::nullopt);
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_THAT(items.Take(0), Optional(11));
  EXPECT_EQ(items.Peek(0), std::nullopt);
  LaneItems few({7}, /*lanes=*/3, LaneItems::Deal::kAll);
  EXPECT_EQ(few.lanes(), 1);
  EXPECT_THAT(few.Take(0), Optional(7));
}

TEST(LaneItemsTest, ThereMayBeFewerItemsThanLanes) {
  EXPECT_EQ(LaneItems({}, /*lanes=*/3).lanes(), 0);
  EXPECT_THAT(LaneItems({}, /*lanes=*/3).InOrder(), ElementsAre());
  LaneItems items({7}, /*lanes=*/3);
  EXPECT_EQ(items.lanes(), 1);
  EXPECT_THAT(items.Take(0), Optional(7));
  EXPECT_EQ(items.Take(0), std::nullopt);
}

TEST(LaneItemsTest, EachItemIsForOneOfTheLanesThatRunAtOnce) {
  constexpr int kLanes = 4;
  std::vector<int64_t> all(1000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  LaneItems items(all, kLanes);
  std::vector<int64_t> taken[kLanes];
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kLanes; ++lane) {
    threads.emplace_back([&, lane] {
      while (const std::optional<int64_t> item = items.Take(lane)) {
        taken[lane].push_back(*item);
        items.Peek(lane);
      }
    });
  }
  std::vector<int64_t> together;
  for (int lane = 0; lane < kLanes; ++lane) {
    threads[lane].join();
    together.insert(together.end(), taken[lane].begin(), taken[lane].end());
  }
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all);
}

}  // namespace
}  // namespace tributary
