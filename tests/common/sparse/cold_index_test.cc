#include "common/sparse/cold_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

TEST(ColdIndexTest, FindsWhatAMapFinds) {
  ColdIndex index;
  std::map<uint64_t, ColdRow> map;
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < 20000; ++i) {
    const uint64_t key = random() % 900;
    const uint64_t hash = KeyHash(key);
    const auto found = map.find(key);
    const ColdRow* const row = index.Find(key, hash);
    ASSERT_EQ(row != nullptr, found != map.end()) << key;
    if (row == nullptr) {
      map[key] = {key, i, i / 7};
      index.Insert(map[key]);
    } else {
      EXPECT_EQ(row->position, found->second.position);
      EXPECT_EQ(row->last_step, found->second.last_step);
      if (i % 3 == 0) {
        index.Move(key, hash, i);
        found->second.position = i;
      } else {
        index.Remove(key, hash);
        map.erase(found);
      }
    }
    ASSERT_EQ(index.size(), static_cast<int64_t>(map.size()));
  }
  index.Remove(901, KeyHash(901));
  int64_t visited = 0;
  index.ForEach([&](const ColdRow& row) {
    ++visited;
    ASSERT_EQ(map.count(row.key), 1u);
    EXPECT_EQ(row.position, map[row.key].position);
  });
  EXPECT_EQ(visited, index.size());
  // About 450 keys, more than 7/8 of 512 slots at times.
  EXPECT_EQ(index.bytes(), 1024 * 16);
}

}  // namespace
}  // namespace tributary
