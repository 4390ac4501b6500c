#include "common/sparse/bucket_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

namespace tributary {
namespace {

constexpr int64_t kFloats = 19;

// A bucket with these keys, whose values follow from the keys.
BucketRows RowsOf(const std::vector<uint64_t>& keys) {
  BucketRows rows;
  rows.bucket = 7;
  rows.keys = keys;
  for (const uint64_t key : keys) {
    rows.last_steps.push_back(static_cast<uint32_t>(key % 1000));
    for (int64_t i = 0; i < kFloats; ++i) {
      rows.values.push_back(static_cast<float>((key + i) % 4093));
    }
  }
  return rows;
}

TEST(BucketRowsTest, SortsRowsByTheirKeys) {
  std::mt19937_64 random(1);
  const std::vector<std::function<uint64_t()>> distributions = {
      random,
      [&] { return random() % 5000; },
      [&] { return random() << 40; },
      // Digits that all keys have in common.
      [&] { return uint64_t{0xabcd} << 48 | (random() % 64) << 22 | 5; },
  };
  for (const auto& draw : distributions) {
    for (const size_t size : {0, 1, 2, 100, 1023, 1024, 20000}) {
      std::vector<uint64_t> keys(size);
      for (uint64_t& key : keys) key = draw();
      BucketRows rows = RowsOf(keys);
      // Duplicates count once.
      std::map<uint64_t, bool> distinct;
      for (const uint64_t key : keys) distinct[key] = true;
      std::vector<uint64_t> ascending;
      for (const auto& [key, unused] : distinct) ascending.push_back(key);
      const BucketRows wanted = RowsOf(ascending);
      SortRows(kFloats, &rows);
      EXPECT_EQ(rows.bucket, 7);
      ASSERT_TRUE(rows.keys == wanted.keys) << size;
      EXPECT_TRUE(rows.last_steps == wanted.last_steps);
      EXPECT_TRUE(rows.values == wanted.values);
    }
  }
}

}  // namespace
}  // namespace tributary
