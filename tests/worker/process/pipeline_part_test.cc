#include "worker/process/pipeline_part.h"

#include <gtest/gtest.h>

#include <optional>

namespace tributary {
namespace {

TEST(PipelinePartTest, ExhaustedMemoryIsNotUnknownMemory) {
  EXPECT_EQ(ReadyMemoryBytes(std::nullopt), 0);
  EXPECT_EQ(ReadyMemoryBytes(0), 1);
  EXPECT_EQ(ReadyMemoryBytes(1000), 1000);
}

}  // namespace
}  // namespace tributary
