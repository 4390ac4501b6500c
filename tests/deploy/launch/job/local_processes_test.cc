#include "deploy/launch/job/local_processes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

TEST(LocalProcessesTest, ProgramsHaveMoreTimeToJoinThanItsOwnWorkers) {
  LocalProcesses processes;
  EXPECT_EQ(
      ValueOf("--no-worker-timeout", MakeLocalJob(processes).server(0, "")),
      "60");
  processes.worker_command = "python3 worker.py";
  EXPECT_EQ(
      ValueOf("--no-worker-timeout", MakeLocalJob(processes).server(0, "")),
      "600");
}

TEST(LocalProcessesTest, ProgramsFindTheFlagsInTheirEnvironment) {
  LocalProcesses processes;
  processes.worker_command = "python3 worker.py";
  processes.worker_threads = 3;
  const ProcessSpec worker = MakeLocalJob(processes).worker(1, "host:1");
  EXPECT_THAT(worker.arguments,
              ElementsAre("/bin/sh", "-c", "exec python3 worker.py"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_COORDINATOR=host:1"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_RANK=1"));
  EXPECT_THAT(worker.environment, Contains("TRIBUTARY_THREADS=3"));
}

}  // namespace
}  // namespace tributary
