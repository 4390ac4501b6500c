#include "worker/data/files/shared_cache.h"

#include <gtest/gtest.h>

#include "common/os/process.h"

namespace tributary {
namespace {

// In a container, this is less than half of the machine's memory.
TEST(SharedCacheTest, HalfOfMemoryIsHalfOfWhatTheProcessMayUse) {
  EXPECT_EQ(HalfOfMemory(), MemoryLimitBytes().value() / 2);
}

}  // namespace
}  // namespace tributary
