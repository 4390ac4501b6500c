#include "common/stream/spare_buffers.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(SpareBuffersTest, UsesReleasedBuffersOfAboutTheSizeAgain) {
  SpareBuffers buffers(/*most=*/2);
  int64_t capacity = 0;
  Buffer first = buffers.Take(1000, &capacity);
  EXPECT_GE(capacity, 1000);
  const float* const memory = first.get();
  // In use.
  Buffer second = buffers.Take(1000, &capacity);
  EXPECT_NE(second.get(), memory);
  first = nullptr;
  EXPECT_NE(buffers.Take(10 * capacity, &capacity).get(), memory);
  EXPECT_GE(capacity, 10000);
  EXPECT_NE(buffers.Take(10, &capacity).get(), memory);
  // The two buffers that were released last are kept: this one, and a large
  // one.
  EXPECT_EQ(capacity, 11);
  second = nullptr;
  second = buffers.Take(1010, &capacity);
  EXPECT_GE(capacity, 1010);
}

TEST(SpareBuffersTest, KeepsTheBuffersThatWereReleasedLast) {
  SpareBuffers buffers(/*most=*/2);
  int64_t capacity = 0;
  std::vector<Buffer> taken;
  std::vector<const float*> memory;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(buffers.Take(800, &capacity));
    memory.push_back(taken.back().get());
    // Every float can be written.
    for (int64_t j = 0; j < capacity; ++j) taken.back().get()[j] = 1;
  }
  taken.clear();  // In their order.
  EXPECT_EQ(buffers.Take(850, &capacity).get(), memory[2]);
  Buffer newest = buffers.Take(850, &capacity);
  EXPECT_EQ(newest.get(), memory[2]);
  EXPECT_EQ(buffers.Take(900, &capacity).get(), memory[1]);
}

TEST(SpareBuffersTest, BuffersOutliveIt) {
  int64_t capacity = 0;
  auto buffers = std::make_unique<SpareBuffers>(/*most=*/1);
  Buffer buffer = buffers->Take(100, &capacity);
  buffers = nullptr;
  buffer.get()[99] = 1;
  buffer = nullptr;
}

}  // namespace
}  // namespace tributary
