// `tributary train --worker-command`: what a worker's program finds in its
// environment, and how its end is reported.
#include <filesystem>
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

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrainWorkerCommandJob[] = R"(
model { mlp { hidden: 8 } }
data { random { samples: 64 shape: 4 classes: 3 } }
batch { global: 16 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 8
)";

class TrainWorkerCommandTest : public testing::Test {
 protected:
  TrainWorkerCommandTest() { WriteWholeFile(job_, kTrainWorkerCommandJob); }

  CommandResult Train(const std::string& name,
                      const std::vector<std::string>& more) {
    std::vector<std::string> command = {kTributary, "train", job_, "--output",
                                        absl::StrCat(folder_, "/", name)};
    command.insert(command.end(), more.begin(), more.end());
    return RunCommand(command, {"TRIBUTARY_THREADS=3"});
  }
  std::string Sha(const std::string& name) {
    return ParseJson(ReadWholeFile(
        absl::StrCat(folder_, "/", name, "/summary.json")))["weights_sha256"];
  }

  const std::string folder_ = MakeTestFolder();
  const std::string job_ = folder_ + "/job.textproto";
};

// The launcher waits for two seconds whether a server explains the failure.
using SlowTrainWorkerCommandTest = TrainWorkerCommandTest;

TEST_F(SlowTrainWorkerCommandTest, ACommandThatIsNoWorkerFailsAtOnce) {
  const CommandResult result = Train("run", {"--worker-command", "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error,
              ContainsRegex("error: worker-[01] exited with code 0 before it "
                            "completed a step; "));
}

TEST_F(SlowTrainWorkerCommandTest, ACommandThatCrashesIsNotRestartedForever) {
  const CommandResult result =
      Train("run", {"--workers", "1", "--worker-command",
                    "sh -c 'echo no memory for rows >&2; kill -SEGV $$'"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              HasSubstr("restarting it (restart 2 of 10)"));
  EXPECT_THAT(result.standard_error, Not(HasSubstr("restart 3 of 10")));
  EXPECT_THAT(result.standard_error,
              HasSubstr("by SIGSEGV: no memory for rows, 3 times"));
}

TEST_F(TrainWorkerCommandTest, TheProgramFindsTheFlagsInItsEnvironment) {
  const std::string token = folder_ + "/token";
  WriteWholeFile(token, "a-token-of-this-test-only-0123456789\n");
  const std::string script = folder_ + "/my worker.sh";
  WriteWholeFile(script,
                 "env | grep TRIBUTARY_ >\"$1\"; echo \"$2\" >>\"$1\"\n"
                 "echo 'error: it is only a test' >&2; exit 2\n");
  const CommandResult result =
      Train("run",
            {"--workers", "1", "--device", "cpu", "--token-file", token,
             "--log-level", "debug", "--worker-command",
             absl::StrCat("sh '", script, "' ", folder_, "/seen 'two words'")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error,
              HasSubstr("worker-0 failed: it is only a test"));
  const std::string seen = ReadWholeFile(folder_ + "/seen");
  EXPECT_THAT(seen, ContainsRegex("TRIBUTARY_COORDINATOR=127.0.0.1:[0-9]+\n"));
  for (const std::string& line :
       {std::string("TRIBUTARY_RANK=0\n"), std::string("TRIBUTARY_THREADS=3\n"),
        std::string("TRIBUTARY_DEVICE=cpu\n"),
        std::string("TRIBUTARY_LOCAL_RANK=0\n"),
        std::string("TRIBUTARY_LOG_LEVEL=debug\n"),
        std::string("TRIBUTARY_LOG_FORMAT=text\n"),
        std::string("TRIBUTARY_WARNING_FD=4\n"),
        absl::StrCat("TRIBUTARY_TOKEN_FILE=", token, "\n"),
        std::string("two words\n")}) {
    EXPECT_THAT(seen, HasSubstr(line));
  }
  EXPECT_THAT(seen, Not(HasSubstr("TRIBUTARY_TLS_DIR")));
}

TEST_F(TrainWorkerCommandTest, OurWorkerReadsTheseVariables) {
  const std::string token = folder_ + "/token";
  WriteWholeFile(token, "a-token-of-this-test-only-0123456789\n");
  const CommandResult own = Train("own", {"--workers", "2"});
  EXPECT_EQ(own.exit_code, 0) << own.standard_error;
  const CommandResult command = Train(
      "command", {"--workers", "2", "--token-file", token, "--worker-command",
                  absl::StrCat(kTributary, " worker")});
  EXPECT_EQ(command.exit_code, 0) << command.standard_error;
  EXPECT_EQ(Sha("command"), Sha("own"));
  EXPECT_THAT(ReadWholeFile(folder_ + "/command/logs/worker-1.log"),
              HasSubstr("admitted as rank 1"));
}

TEST_F(SlowTrainWorkerCommandTest, AMissingProgramIsReported) {
  const CommandResult result =
      Train("run", {"--workers", "1", "--worker-command", "./no-such-program"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.standard_error,
      ContainsRegex("error: worker-0 exited with code 127 \\(no such program"
                    "\\?\\): .*not found \\(log: "));
}

}  // namespace
}  // namespace tributary
