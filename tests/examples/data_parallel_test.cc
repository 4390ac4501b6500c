// The example of docs/cpp.md: a training loop of a program on several devices.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(DataParallelExampleTest, PrintsTheSameForAnyNumberOfDevices) {
  const char* const program = "examples/cpp/data_parallel/data_parallel";
  const CommandResult two = RunExpecting(0, {program});
  EXPECT_EQ(two.standard_error, "");
  EXPECT_THAT(two.standard_output, HasSubstr("step 400: loss "));
  EXPECT_THAT(two.standard_output, EndsWith(" of 256 correct\n"));
  EXPECT_EQ(RunExpecting(0, {program, "cpu"}).standard_output,
            two.standard_output);
  EXPECT_EQ(RunExpecting(0, {program, "cpu", "cpu", "cpu"}).standard_output,
            two.standard_output);
}

}  // namespace
}  // namespace tributary
