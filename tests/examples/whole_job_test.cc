// The example of docs/cpp.md: a job that runs within a program.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(WholeJobTest, FitsTheLineAndShowsTheLoss) {
  const CommandResult result =
      RunExpecting(0, {"examples/cpp/whole_job/whole_job"});
  EXPECT_EQ(result.standard_error, "");
  EXPECT_THAT(result.standard_output,
              AllOf(HasSubstr("step 80: loss "), HasSubstr("step 320: loss "),
                    EndsWith("y = 3.000 x + -1.000\n")));
}

}  // namespace
}  // namespace tributary
