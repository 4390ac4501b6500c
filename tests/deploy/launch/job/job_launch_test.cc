#include "deploy/launch/job/job_launch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

// Returns what follows `flag` in the arguments.
std::string ValueOf(const std::string& flag, const ProcessSpec& process) {
  const auto found =
      std::find(process.arguments.begin(), process.arguments.end(), flag);
  const bool given =
      found != process.arguments.end() && found + 1 != process.arguments.end();
  return given ? *(found + 1) : "";
}

TEST(JobLaunchTest, ProgramsHaveMoreTimeToJoinThanItsOwnWorkers) {
  JobLaunch launch;
  launch.output = MakeTestFolder();
  EXPECT_EQ(
      ValueOf("--no-worker-timeout", MakeRunnerOptions(launch)->server(0, "")),
      "60");
  launch.worker_command = "python3 worker.py";
  EXPECT_EQ(
      ValueOf("--no-worker-timeout", MakeRunnerOptions(launch)->server(0, "")),
      "600");
}

TEST(JobLaunchTest, ProgramsFindTheFlagsInTheirEnvironment) {
  JobLaunch launch;
  launch.output = MakeTestFolder();
  launch.worker_command = "python3 worker.py";
  launch.threads = 3;
  const ProcessSpec worker = MakeRunnerOptions(launch)->worker(1, "host:1");
  EXPECT_THAT(worker.arguments,
              ElementsAre("/bin/sh", "-c", "exec python3 worker.py"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_COORDINATOR=host:1"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_RANK=1"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_THREADS=3"));
}

}  // namespace
}  // namespace tributary
