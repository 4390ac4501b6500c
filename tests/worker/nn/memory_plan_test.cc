#include "worker/nn/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tributary {
namespace {

constexpr int64_t kAlignment = 16;

bool Overlap(const PlannedBuffer& a, const PlannedBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlanTest, NothingNeedsNothing) {
  EXPECT_EQ(PlanMemory({}, kAlignment).total, 0);
}

TEST(MemoryPlanTest, BuffersOfDifferentTimesShareMemory) {
  const std::vector<PlannedBuffer> buffers = {{100, 0, 1}, {90, 2, 3}};
  const MemoryPlan plan = PlanMemory(buffers, kAlignment);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(plan.total, 112);
}

TEST(MemoryPlanTest, BuffersThatMeetInOneMomentDoNotShare) {
  const std::vector<PlannedBuffer> buffers = {{100, 0, 2}, {90, 2, 3}};
  const MemoryPlan plan = PlanMemory(buffers, kAlignment);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 112}));
  EXPECT_EQ(plan.total, 208);
}

TEST(MemoryPlanTest, RandomBuffersNeverCollideAndPackWell) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<PlannedBuffer> buffers(1 + random() % 40);
    for (PlannedBuffer& buffer : buffers) {
      buffer.size = 1 + random() % 1000;
      buffer.first = random() % 50;
      buffer.last = buffer.first + random() % 20;
    }
    const MemoryPlan plan = PlanMemory(buffers, kAlignment);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kAlignment, 0);
      EXPECT_LE(plan.offsets[i] + buffers[i].size, plan.total);
      for (size_t k = 0; k < i; ++k) {
        if (!Overlap(buffers[i], buffers[k])) continue;
        EXPECT_TRUE(plan.offsets[i] + buffers[i].size <= plan.offsets[k] ||
                    plan.offsets[k] + buffers[k].size <= plan.offsets[i]);
      }
    }
    // No plan can need less than what is in use at one time.
    int64_t most = 0;
    for (int time = 0; time < 70; ++time) {
      int64_t used = 0;
      for (const PlannedBuffer& buffer : buffers) {
        if (buffer.first <= time && time <= buffer.last) used += buffer.size;
      }
      most = std::max(most, used);
    }
    EXPECT_GE(plan.total, most);
    EXPECT_LE(plan.total, 2 * most + 40 * kAlignment);
  }
}

}  // namespace
}  // namespace tributary
