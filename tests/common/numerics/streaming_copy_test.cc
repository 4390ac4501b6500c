#include "common/numerics/streaming_copy.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(StreamingCopyTest, CopiesFromAnyAddressToAnyFloat) {
  constexpr int64_t kMost = 100;
  std::vector<char> from(kMost * 4 + 8);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(7 * i);
  for (int shift = 0; shift < 5; ++shift) {
    for (int64_t begin = 0; begin < 17; ++begin) {
      for (int64_t count = 0; count <= kMost; ++count) {
        std::vector<float> to(kMost + 18, 1.f);
        StreamingCopy(from.data() + shift, count, to.data() + begin);
        ASSERT_EQ(std::memcmp(to.data() + begin, from.data() + shift,
                              count * sizeof(float)),
                  0);
        for (int64_t i = 0; i < begin; ++i) ASSERT_EQ(to[i], 1.f);
        for (size_t i = begin + count; i < to.size(); ++i) {
          ASSERT_EQ(to[i], 1.f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tributary
