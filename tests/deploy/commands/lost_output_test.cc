// Row 45: what a person would read gets lost, and the training does not.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

class LostOutputTest : public testing::TestWithParam<std::string> {};

TEST_P(LostOutputTest, TrainingGoesOn) {
  const std::string folder = MakeTestFolder();
  JobSpec job = TinyJob("mlp", folder);
  job.mutable_output()->set_log_every_steps(1);
  WriteWholeFile(folder + "/job.textproto", PrintJob(job));
  // A shell does to the program's outputs what the parameter says.
  RunExpecting(0, {"/bin/sh", "-c",
                   absl::StrCat("exec ", kTributary, " train ", folder,
                                "/job.textproto --output ", folder,
                                "/run --servers 2 --workers 2 ", GetParam())});
  EXPECT_TRUE(std::filesystem::exists(folder + "/run/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/run/final/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Outputs, LostOutputTest,
                         testing::Values(">&-", "2>&-", ">&- 2>&-",
                                         ">/dev/full", "2>/dev/full",
                                         ">/dev/full 2>/dev/full"));

// Whoever read it has left.
TEST(LostReaderTest, TrainingGoesOn) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto", PrintJob(TinyJob("mlp", folder)));
  RunCommand({"/bin/sh", "-c",
              absl::StrCat("{ ", kTributary, " train ", folder,
                           "/job.textproto --output ", folder,
                           "/run --servers 1 --workers 2 2>&1; echo $? > ",
                           folder, "/code; } | true")});
  // Some shells do not wait for the first of the two.
  EXPECT_TRUE(AwaitLines(folder + "/code", 1));
  EXPECT_EQ(ReadWholeFile(folder + "/code"), "0\n");
  EXPECT_TRUE(std::filesystem::exists(folder + "/run/summary.json"));
}

}  // namespace
}  // namespace tributary
