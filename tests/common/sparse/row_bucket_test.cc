#include "common/sparse/row_bucket.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace tributary {
namespace {

constexpr int64_t kRowBytes = 24;

TEST(RowBucketTest, FindsWhatAMapFinds) {
  SlabMemory memory(kRowBytes * RowBucket::kSlabRows, /*limit_bytes=*/0);
  RowBucket bucket(kRowBytes, &memory);
  std::map<uint64_t, float> wanted;
  std::mt19937_64 random(1);
  // Few keys, so that many operations concern a key that exists; hashes whose
  // homes are near one another, so that searches pass other keys.
  for (int i = 0; i < 40000; ++i) {
    const uint64_t key = random() % 500;
    const uint64_t hash = KeyHash(key);
    RowHeader* const row = bucket.Find(key, hash);
    ASSERT_EQ(row != nullptr, wanted.count(key) == 1) << key;
    if (row == nullptr) {
      if (random() % 2 == 0) continue;
      RowHeader* const added = bucket.Insert(key, hash);
      ASSERT_NE(added, nullptr);
      *RowValues(added) = wanted[key] = static_cast<float>(i);
    } else {
      EXPECT_EQ(row->key, key);
      EXPECT_EQ(*RowValues(row), wanted[key]);
      if (random() % 3 == 0) {
        bucket.Remove(key, hash);
        wanted.erase(key);
      }
    }
    ASSERT_EQ(bucket.size(), static_cast<int64_t>(wanted.size()));
  }
  std::set<uint64_t> keys;
  bucket.ForEach([&](const RowHeader* row) { keys.insert(row->key); });
  EXPECT_EQ(keys.size(), wanted.size());
}

TEST(RowBucketTest, RowsDoNotMoveWhileTheIndexGrows) {
  SlabMemory memory(kRowBytes * RowBucket::kSlabRows, /*limit_bytes=*/0);
  RowBucket bucket(kRowBytes, &memory);
  std::map<uint64_t, const RowHeader*> rows;
  for (uint64_t key = 0; key < 10000; ++key) {
    rows[key] = bucket.Insert(key, KeyHash(key));
  }
  for (const auto& [key, row] : rows) {
    EXPECT_EQ(bucket.Find(key, KeyHash(key)), row);
  }
  // 4 bytes for each slot, and at least 7 of 16 slots in use.
  EXPECT_LE(bucket.index_bytes(), 10000 * 4 * 16 / 7);
}

TEST(RowBucketTest, MemoryOfRemovedRowsIsUsedAgain) {
  SlabMemory memory(kRowBytes * RowBucket::kSlabRows, /*limit_bytes=*/0);
  RowBucket bucket(kRowBytes, &memory);
  RowHeader* const first = bucket.Insert(1, KeyHash(1));
  bucket.Remove(1, KeyHash(1));
  EXPECT_EQ(bucket.Insert(2, KeyHash(2)), first);
}

TEST(RowBucketTest, RefusesRowsAboveTheLimitOfMemory) {
  constexpr int64_t kLimit = 3 * kRowBytes * RowBucket::kSlabRows;
  SlabMemory memory(kRowBytes * RowBucket::kSlabRows, kLimit);
  RowBucket bucket(kRowBytes, &memory);
  uint64_t key = 0;
  while (bucket.Insert(key, KeyHash(key)) != nullptr) ++key;
  EXPECT_EQ(key, 3u * RowBucket::kSlabRows);
  EXPECT_EQ(bucket.size(), 3 * RowBucket::kSlabRows);
  EXPECT_LE(memory.bytes(), kLimit);
  EXPECT_NE(bucket.Find(0, KeyHash(0)), nullptr);
}

}  // namespace
}  // namespace tributary
