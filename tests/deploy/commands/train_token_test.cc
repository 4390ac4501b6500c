// The token with which `tributary train` keeps other users of the machine out
// of a job.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kTrainTokenJob[] = R"(
model { mlp { hidden: 8 } }
data { random { samples: 64 shape: 4 classes: 3 } }
batch { global: 16 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 1000000000
output { log_every_steps: 1 }
)";

TEST(TrainTokenTest, KeepsEverybodyElseOutOfTheJob) {
  const std::string folder = MakeTestFolder();
  const std::string job = folder + "/job.textproto";
  WriteWholeFile(job, kTrainTokenJob);
  const std::string run = folder + "/run";
  BackgroundCommand train({kTributary, "train", job, "--output", run});
  ASSERT_TRUE(AwaitLines(run + "/metrics.jsonl", 1));
  struct stat facts = {};
  ASSERT_EQ(stat((run + "/token").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);

  EXPECT_EQ(RunCommand({kTributary, "status", run}).exit_code, 0);
  const std::string address =
      ParseJson(ReadWholeFile(run + "/server.json"))["address"];
  const CommandResult status = RunExpecting(1, {kTributary, "status", address});
  EXPECT_THAT(status.standard_error, HasSubstr("token"));
  const CommandResult worker =
      RunExpecting(1, {kTributary, "worker", "--coordinator", address});
  EXPECT_THAT(worker.standard_error, HasSubstr("token"));
  EXPECT_EQ(RunCommand(
                {kTributary, "status", address, "--token-file", run + "/token"})
                .exit_code,
            0);

  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait().exit_code, 75);
  EXPECT_NE(access((run + "/token").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tributary
