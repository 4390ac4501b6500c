// The example with an engine of its own, as docs/cpp.md starts it.
#include <signal.h>

#include <algorithm>
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

class OwnEngineTest : public testing::Test {
 protected:
  std::vector<std::string> Train(const std::string& name,
                                 const std::vector<std::string>& more) {
    std::vector<std::string> command = {
        kTributary,
        "train",
        "examples/cpp/own_engine/ratings.textproto",
        "--worker-command",
        "examples/cpp/own_engine/own_engine",
        "--output",
        absl::StrCat(folder_, "/", name)};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  nlohmann::json Run(const std::string& name,
                     const std::vector<std::string>& more) {
    RunExpecting(0, Train(name, more));
    return SummaryOf(name);
  }
  nlohmann::json SummaryOf(const std::string& name) {
    return ParseJson(
        ReadWholeFile(absl::StrCat(folder_, "/", name, "/summary.json")));
  }
  std::string Metrics(const std::string& name) {
    return absl::StrCat(folder_, "/", name, "/metrics.jsonl");
  }
  bool AwaitMoreLines(const std::string& name, int more) {
    const std::string text = ReadWholeFile(Metrics(name));
    const auto lines = std::count(text.begin(), text.end(), '\n');
    return AwaitLines(Metrics(name), static_cast<int>(lines) + more);
  }
  static std::vector<std::string> ForSteps(int steps) {
    return {"--steps", absl::StrCat(steps),        "--log-every", "20",
            "--set",   "checkpoint.every_steps=50"};
  }

  const std::string folder_ = MakeTestFolder();
};

// The protocol's checks for a worker whose model only it knows.
TEST_F(OwnEngineTest, FollowsTheProtocol) {
  const CommandResult result = RunExpecting(
      0, {kTributary, "conformance", "--worker-command",
          "examples/cpp/own_engine/own_engine", "--job",
          "examples/cpp/own_engine/ratings.textproto", "--set", "epochs=0.2"});
  EXPECT_THAT(result.standard_output,
              HasSubstr("two-workers              passed"));
}

TEST_F(OwnEngineTest, LearnsTheSameWithOneAndTwoWorkers) {
  const nlohmann::json one = Run("one", {"--workers", "1"});
  EXPECT_EQ(one.value("steps", 0), 316);
  // The variance of the ratings is 1/3; their noise alone is 1/48.
  EXPECT_LT(one["evaluation"].value("loss", 1.0), 0.05);
  EXPECT_LT(one.value("final_loss", 1.0), 0.05);
  EXPECT_GT(one["evaluation"].value("accuracy", 0.0), 0.9);
  const nlohmann::json two = Run("two", {"--workers", "2"});
  EXPECT_EQ(two["weights_sha256"], one["weights_sha256"]);
  EXPECT_EQ(two["evaluation"], one["evaluation"]);
}

TEST_F(OwnEngineTest, LearnsTheSameWhenProcessesAreKilled) {
  // More than it computes until it is stopped.
  BackgroundCommand train(Train("disturbed", ForSteps(1000000)));
  ASSERT_TRUE(AwaitLines(Metrics("disturbed"), 5));
  // Server 0, then the two workers.
  std::vector<pid_t> processes = ChildrenOf(train.pid());
  ASSERT_EQ(processes.size(), 3u);
  kill(processes[2], SIGKILL);
  ASSERT_NE(train.AwaitStandardError("worker-1 was killed"), "");
  ASSERT_TRUE(AwaitMoreLines("disturbed", 7));
  kill(processes[0], SIGKILL);
  ASSERT_NE(train.AwaitStandardError("server-0 was killed"), "");
  ASSERT_TRUE(AwaitMoreLines("disturbed", 7));
  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait().exit_code, 75) << train.StandardError();
  const int steps = SummaryOf("disturbed").value("steps", 0) + 50;
  std::vector<std::string> resuming = ForSteps(steps);
  resuming.insert(resuming.end(), {"--resume", "auto"});
  EXPECT_EQ(Run("disturbed", resuming)["weights_sha256"],
            Run("undisturbed", ForSteps(steps))["weights_sha256"]);
}

}  // namespace
}  // namespace tributary
