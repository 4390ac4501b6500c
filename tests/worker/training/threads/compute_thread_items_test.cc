#include "worker/training/threads/compute_thread_items.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(ComputeThreadItemsTest, AThreadBeginsWithTheItemOfItsNumber) {
  ComputeThreadItems items({10, 11, 12}, /*threads=*/2);
  EXPECT_EQ(items.threads(), 2);
  EXPECT_THAT(items.InOrder(), ElementsAre(10, 11, 12));
  EXPECT_THAT(items.Take(1), Optional(11));
  EXPECT_THAT(items.Take(1), Optional(12));
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_EQ(items.Take(0), std::nullopt);
  EXPECT_EQ(items.Take(1), std::nullopt);
  EXPECT_EQ(items.First(1), 11);
}

TEST(ComputeThreadItemsTest, WhatAThreadHasSeenIsItsOwn) {
  ComputeThreadItems items({10, 11, 12, 13}, /*threads=*/2);
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_THAT(items.Peek(0), Optional(12));
  EXPECT_THAT(items.Take(1), Optional(11));
  EXPECT_THAT(items.Take(1), Optional(13));
  EXPECT_EQ(items.Peek(1), std::nullopt);
  EXPECT_THAT(items.Peek(0), Optional(12));
  EXPECT_THAT(items.Take(0), Optional(12));
  EXPECT_EQ(items.Peek(0), std::nullopt);
}

TEST(ComputeThreadItemsTest, NeighboursGoToOneThreadWithAStaticSchedule) {
  ComputeThreadItems items({10, 11, 12, 20, 21}, /*threads=*/2,
                           ComputeThreadItems::Schedule::kStatic);
  EXPECT_EQ(items.threads(), 2);
  EXPECT_THAT(items.AssignedTo(0), ElementsAre(10, 11));
  EXPECT_THAT(items.AssignedTo(1), ElementsAre(12, 20, 21));
  EXPECT_EQ(items.First(1), 12);
  EXPECT_THAT(items.InOrder(), ElementsAre(10, 12, 11, 20, 21));
  for (const int64_t item : {12, 20, 21}) {
    EXPECT_THAT(items.Peek(1), Optional(item));
    EXPECT_THAT(items.Take(1), Optional(item));
  }
  // No compute thread takes an item of another one.
  EXPECT_EQ(items.Take(1), std::nullopt);
  EXPECT_THAT(items.Take(0), Optional(10));
  EXPECT_THAT(items.Take(0), Optional(11));
  EXPECT_EQ(items.Peek(0), std::nullopt);
  ComputeThreadItems few({7}, /*threads=*/3,
                         ComputeThreadItems::Schedule::kStatic);
  EXPECT_EQ(few.threads(), 1);
  EXPECT_THAT(few.Take(0), Optional(7));
}

TEST(ComputeThreadItemsTest, AnItemWaitsUntilTheOneBeforeItHasStarted) {
  ComputeThreadItems items({10, 11, 12}, /*threads=*/2,
                           ComputeThreadItems::Schedule::kInOrder);
  EXPECT_EQ(items.threads(), 2);
  EXPECT_THAT(items.InOrder(), ElementsAre(10, 11, 12));
  EXPECT_THAT(items.Take(1), Optional(10));
  std::atomic<bool> started = false;
  std::thread other([&] {
    EXPECT_THAT(items.Take(0), Optional(11));
    EXPECT_TRUE(started);
    // The thread fails before the item has started.
    items.Started(0);
  });
  started = true;
  items.Started(1);
  other.join();
  EXPECT_THAT(items.Take(1), Optional(12));
  EXPECT_EQ(items.Take(1), std::nullopt);
}

TEST(ComputeThreadItemsTest, ThereMayBeFewerItemsThanThreads) {
  EXPECT_EQ(ComputeThreadItems({}, /*threads=*/3).threads(), 0);
  EXPECT_THAT(ComputeThreadItems({}, /*threads=*/3).InOrder(), ElementsAre());
  ComputeThreadItems items({7}, /*threads=*/3);
  EXPECT_EQ(items.threads(), 1);
  EXPECT_THAT(items.Take(0), Optional(7));
  EXPECT_EQ(items.Take(0), std::nullopt);
}

TEST(ComputeThreadItemsTest, EachItemIsForOneOfTheThreadsThatRunAtOnce) {
  constexpr int kThreads = 4;
  std::vector<int64_t> all(1000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  ComputeThreadItems items(all, kThreads);
  std::vector<int64_t> taken[kThreads];
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      while (const std::optional<int64_t> item = items.Take(thread)) {
        taken[thread].push_back(*item);
        items.Peek(thread);
      }
    });
  }
  std::vector<int64_t> together;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads[thread].join();
    together.insert(together.end(), taken[thread].begin(), taken[thread].end());
  }
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all);
}

}  // namespace
}  // namespace tributary
