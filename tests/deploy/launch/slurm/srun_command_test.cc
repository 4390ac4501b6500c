#include "deploy/launch/slurm/srun_command.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Environment Path(const std::string& path) {
  return [path](const std::string& name) -> absl::optional<std::string> {
    return name == "PATH" ? absl::optional<std::string>(path) : absl::nullopt;
  };
}

TEST(SrunCommandTest, FindsSrunInPath) {
  const std::string folder = MakeTestFolder();
  EXPECT_THAT(
      FindSrun(Path("/nowhere:" + folder)).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("srun is not in PATH")));
  WriteWholeFile(folder + "/srun", "#!/bin/sh\n");
  ASSERT_EQ(chmod((folder + "/srun").c_str(), 0755), 0);
  EXPECT_EQ(*FindSrun(Path("/nowhere:" + folder)), folder + "/srun");
}

TEST(SrunCommandTest, StartsOneTaskOnTheNodeBesideOtherSteps) {
  AllocatedNode node;
  node.name = "n1";
  auto arguments = SrunArguments("/usr/bin/srun", node, "/opt/tributary");
  EXPECT_EQ(arguments[0], "/usr/bin/srun");
  for (const char* argument : {"--overlap", "--nodes=1", "--ntasks=1",
                               "--nodelist=n1", "--cpu-bind=none"}) {
    EXPECT_THAT(arguments, Contains(argument));
  }
  EXPECT_EQ(arguments[arguments.size() - 2], "/opt/tributary");
  EXPECT_EQ(arguments.back(), "node-agent");
  EXPECT_THAT(arguments, Not(Contains(HasSubstr("het-group"))));
  node.het_group = 1;
  EXPECT_THAT(SrunArguments("/usr/bin/srun", node, "/opt/tributary"),
              Contains("--het-group=1"));
}

TEST(SrunCommandTest, HidesTheRequestsOfTheJobsTasks) {
  EXPECT_THAT(
      SrunEnvironment({"PATH=/bin", "SLURM_JOB_ID=1", "SLURM_NTASKS=3",
                       "SLURM_CPUS_PER_TASK=2", "SLURM_MEM_PER_CPU=100",
                       "SLURM_NTASKS_PER_NODE=1", "SRUN_CPUS_PER_TASK=2",
                       "SLURM_CONF=/etc/slurm.conf"}),
      ElementsAre("PATH=/bin", "SLURM_JOB_ID=1", "SLURM_CONF=/etc/slurm.conf"));
}

}  // namespace
}  // namespace tributary
