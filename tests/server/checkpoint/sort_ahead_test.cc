#include "server/checkpoint/sort_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tributary {
namespace {

const std::vector<RowFloats> kFloats = {{2, 1}, {1, 0}};

// Two tables with some buckets each, of many sizes.
std::vector<SparseTable::Changes> Changes(int buckets) {
  std::mt19937_64 random(2);
  std::vector<SparseTable::Changes> changes(2);
  for (size_t table = 0; table < 2; ++table) {
    for (int bucket = 0; bucket < buckets; ++bucket) {
      BucketRows& rows = changes[table].buckets.emplace_back();
      rows.bucket = bucket;
      rows.keys.resize(random() % 6000);
      for (uint64_t& key : rows.keys) key = random();
      rows.last_steps.assign(rows.keys.size(), 1);
      rows.values.assign(rows.keys.size() * kFloats[table].all(), 2.f);
    }
  }
  return changes;
}

TEST(SortAheadTest, ReturnsTheBucketsInTheirOrder) {
  constexpr int kBuckets = 20;
  std::vector<SparseTable::Changes> changes = Changes(kBuckets);
  SortAhead sorted(&changes, kFloats);
  for (SparseTable::Changes& table : changes) {
    for (BucketRows& expected : table.buckets) {
      BucketRows* const rows = sorted.Next();
      ASSERT_EQ(rows, &expected);
      EXPECT_TRUE(std::is_sorted(rows->keys.begin(), rows->keys.end()));
      *rows = BucketRows();
    }
  }
}

// As if the disk were full.
TEST(SortAheadTest, EndsBeforeAllBucketsAreTaken) {
  for (const int taken : {0, 1, 5}) {
    std::vector<SparseTable::Changes> changes = Changes(/*buckets=*/20);
    SortAhead sorted(&changes, kFloats);
    for (int i = 0; i < taken; ++i) sorted.Next();
  }
}

// A bucket is freed when it is written.
TEST(SortAheadTest, SortsOnlyAFewBucketsAhead) {
  constexpr int kBuckets = 20, kTaken = 3, kMostAhead = 2;
  std::vector<SparseTable::Changes> changes = Changes(kBuckets);
  {
    SortAhead sorted(&changes, kFloats);
    for (int i = 0; i < kTaken; ++i) sorted.Next();
  }
  for (int i = kTaken + kMostAhead; i < kBuckets; ++i) {
    const std::vector<uint64_t>& keys = changes[0].buckets[i].keys;
    EXPECT_TRUE(keys.size() < 2 || !std::is_sorted(keys.begin(), keys.end()));
  }
}

TEST(SortAheadTest, ThereMayBeNoBuckets) {
  std::vector<SparseTable::Changes> changes(2);
  SortAhead sorted(&changes, kFloats);
}

}  // namespace
}  // namespace tributary
