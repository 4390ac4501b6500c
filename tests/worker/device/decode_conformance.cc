// Incremental attention.
#include <algorithm>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

struct Case {
  AttentionOps::CacheShape shape;
  std::vector<int64_t> counts;  // Positions that each call adds.
};

std::vector<Case> Cases() {
  return {{{1, 1, 1}, {1}},
          {{2, 4, 9}, {1, 1, 1, 3, 2}},
          {{3, 8, 40}, {17, 1, 1, 5, 16}},
          {{1, 65, 33}, {32, 1}},
          {{2, 64, 200}, {1, 70, 64, 1, 40}},
          {{1, 130, 150}, {129, 1, 20}}};
}

TEST_P(DeviceConformanceTest, DecodeMatchesAttentionOfAllPositions) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(std::to_string(c.shape.heads) + " heads of " +
                 std::to_string(c.shape.head_size) + ", capacity " +
                 std::to_string(c.shape.capacity));
    int64_t time = 0;
    for (const int64_t count : c.counts) time += count;
    const int64_t width = c.shape.heads * c.shape.head_size;
    Floats qkv = Random(time * 3 * width, 1);
    for (float& value : qkv) value *= 2;
    const Doubles expected = reference::AttentionForward(
        {1, time, c.shape.heads, c.shape.head_size}, ToDoubles(qkv), {}, 0);
    AttentionOps& ops = *device_->ops().attention;
    auto cache = Output(ops.CacheElements(c.shape));
    int64_t past = 0;
    for (const int64_t count : c.counts) {
      SCOPED_TRACE(past);
      const auto part = qkv.begin() + past * 3 * width;
      const auto rows = UploadReals({part, part + count * 3 * width});
      auto y = OutputReals(count * width);
      ops.Decode({c.shape, past, count, rows, cache, y});
      const auto wanted = expected.begin() + past * width;
      // As in AttentionForwardMatchesReference.
      ExpectRealsNear(y, {wanted, wanted + count * width},
                      200 * kEpsilon + 3 * RealEpsilon());
      past += count;
    }
  }
}

TEST_P(DeviceConformanceTest, DecodeOverwritesPositionsAfterPast) {
  const AttentionOps::CacheShape shape = {2, 16, 24};
  const int64_t row = 3 * shape.heads * shape.head_size;
  const Floats first = Random(10 * row, 1), other = Random(5 * row, 2);
  AttentionOps& ops = *device_->ops().attention;
  const auto last_of = [&](bool overwrite) {
    auto cache = Output(ops.CacheElements(shape));
    auto y = OutputReals(10 * row / 3), last = OutputReals(5 * row / 3);
    // Only the first four positions are the same in both calls.
    const int64_t kept = overwrite ? 10 : 4;
    ops.Decode({shape, 0, kept,
                UploadReals({first.begin(), first.begin() + kept * row}), cache,
                y});
    ops.Decode({shape, 4, 5, UploadReals(other), cache, last});
    return last.Download();
  };
  EXPECT_EQ(last_of(true), last_of(false));
}

}  // namespace
}  // namespace tributary
