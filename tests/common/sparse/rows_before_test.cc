#include "common/sparse/rows_before.h"

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// A reader passes over few keys or many, between few calls or many.
TEST(RowsBeforeTest, FindsKeysAtAnyDistance) {
  constexpr uint64_t kKeys = 3000;
  std::mt19937 random(5);
  for (const int density : {1, 10, 100}) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < kKeys; ++key) {
      if (random() % density == 0) keys.push_back(key);
    }
    const auto count = static_cast<int64_t>(keys.size());
    RowsBefore rows(keys, {AllocateBuffer(count), count}, /*dim=*/1);
    std::map<uint64_t, RowsBefore::State> wanted;
    for (int64_t place = 0; place < count; ++place) {
      const uint64_t key = keys[place];
      *rows.values(place) = static_cast<float>(key);
      const bool existed = random() % 2 == 0;
      if (existed) rows.Existed(place);
      wanted[key] =
          existed ? RowsBefore::State::kPresent : RowsBefore::State::kAbsent;
    }
    // Keys without a gradient, beginning with the last.
    for (uint64_t key = kKeys; key-- > 0;) {
      if (random() % 50 != 0 || wanted.count(key) > 0) continue;
      const auto value = static_cast<float>(key);
      rows.Add(key, /*existed=*/true, &value);
      wanted[key] = RowsBefore::State::kPresent;
    }
    rows.Finish();
    for (const int distance : {1, 7, 300, 5000}) {
      RowsBefore::Reader reader(&rows);
      for (uint64_t key = random() % distance; key < kKeys;
           key += 1 + random() % distance) {
        const float* values = nullptr;
        const RowsBefore::State state = reader.Find(key, &values);
        const auto found = wanted.find(key);
        ASSERT_EQ(state, found == wanted.end() ? RowsBefore::State::kUnchanged
                                               : found->second)
            << key;
        if (state == RowsBefore::State::kPresent) {
          EXPECT_EQ(*values, static_cast<float>(key));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tributary
