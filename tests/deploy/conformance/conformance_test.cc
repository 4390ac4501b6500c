// `tributary conformance` with workers that follow the protocol, and with
// workers that do not, each of which must be told why.
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

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kPython[] = "/usr/bin/python3";

CommandResult Check(const std::string& worker,
                    const std::vector<std::string>& flags) {
  std::vector<std::string> command = {kTributary, "conformance",
                                      "--worker-command", worker};
  command.insert(command.end(), flags.begin(), flags.end());
  BackgroundCommand check(command);
  return check.Wait(absl::Minutes(4));
}

std::string BuiltIn() {
  return absl::StrCat(std::filesystem::absolute(kTributary).string(),
                      " worker --threads 1 --device cpu");
}

TEST(ConformanceTest, TheBuiltInWorkerPasses) {
  const CommandResult result = Check(BuiltIn(), {});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.standard_error, "");
  EXPECT_THAT(result.standard_output,
              AllOf(MatchesRegex("(.|\n)*train +passed\n(.|\n)*"),
                    HasSubstr("end-out-of-range         passed\n"),
                    Not(HasSubstr("FAILED"))));
}

TEST(ConformanceTest, MistakesOfTheUserAreNamed) {
  EXPECT_THAT(Check("x", {"--filter", "nothing"}).standard_error,
              HasSubstr("--filter nothing: no scenario has this in its name"));
  EXPECT_THAT(Check("x", {"--set", "exchange.all_reduce={}"}).standard_error,
              HasSubstr("the scenarios are for consistency mode synchronous"));
  const CommandResult result = RunCommand({kTributary, "conformance"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error, HasSubstr("--worker-command is missing"));
}

TEST(ConformanceTest, AWorkerThatDoesNotStartIsNamed) {
  const CommandResult result =
      Check("/nowhere/worker", {"--filter", "late-join"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_output,
              HasSubstr("late-join  FAILED: it exited with code 127 (no such "
                        "program?)"));
  EXPECT_THAT(result.standard_error, HasSubstr("logs are in "));
}

// Its exit code alone would be what the scenario expects.
TEST(ConformanceTest, AWorkerThatEndsBeforeItConnectsPassesNoScenario) {
  for (const char* const command : {"/bin/false", "/bin/true"}) {
    const CommandResult result = Check(command, {"--filter", "end-", "--json"});
    EXPECT_EQ(result.exit_code, 1);
    const nlohmann::json report = ParseJson(result.standard_output);
    EXPECT_EQ(report["passed"], 0) << result.standard_output;
    EXPECT_THAT(report["scenarios"][0].value("what", ""),
                HasSubstr("before it called Membership"));
  }
}

// The time limit kills a worker that does nothing.
TEST(ConformanceTest, AWorkerThatHangsIsNamedAndKilled) {
  const CommandResult result =
      Check("sleep 1000", {"--filter", "late-join", "--time-limit", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_output,
              HasSubstr("after 1s: it did not call Membership; the protocol: "
                        "PROTOCOL.md, A job from start to end"));
}

class PythonConformanceTest : public testing::Test {
 protected:
  void SetUp() override {
    const CommandResult possible =
        RunCommand({kPython, "-c", "import google.protobuf, grpc, numpy"});
    if (possible.exit_code != 0 ||
        !std::filesystem::exists("/usr/bin/grpc_python_plugin")) {
      GTEST_SKIP() << "needs Debian's packages python3-grpcio, python3-numpy "
                      "and protobuf-compiler-grpc: "
                   << possible.standard_error;
    }
  }
};

TEST_F(PythonConformanceTest, TheWorkerInPythonPasses) {
  const CommandResult result = Check(
      absl::StrCat(kPython, " examples/python_wire/worker.py"), {"--json"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_output;
  const nlohmann::json report = ParseJson(result.standard_output);
  EXPECT_EQ(report["failed"], 0);
  EXPECT_EQ(report["passed"], 19);
  EXPECT_EQ(report["scenarios"][0]["name"], "train");
}

struct Sabotage {
  std::string fault;     // See sabotaged_worker.py.
  std::string scenario;  // That finds it.
  std::string what;
  std::string rule;

  friend void PrintTo(const Sabotage& sabotage, std::ostream* out) {
    *out << sabotage.fault;
  }
};

class SabotageTest : public PythonConformanceTest,
                     public testing::WithParamInterface<Sabotage> {};

TEST_P(SabotageTest, IsNamed) {
  const Sabotage& sabotage = GetParam();
  const CommandResult result = Check(
      absl::StrCat(kPython, " tests/deploy/conformance/sabotaged_worker.py ",
                   sabotage.fault),
      {"--filter", sabotage.scenario, "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json report = ParseJson(result.standard_output);
  ASSERT_EQ(report["failed"], 1) << result.standard_output;
  const nlohmann::json& scenario = report["scenarios"][0];
  EXPECT_EQ(scenario["name"], sabotage.scenario);
  EXPECT_THAT(scenario.value("what", ""), HasSubstr(sabotage.what));
  EXPECT_THAT(scenario.value("rule", ""), HasSubstr(sabotage.rule));
}

INSTANTIATE_TEST_SUITE_P(
    All, SabotageTest,
    testing::Values(
        Sabotage{"other-samples", "two-servers", "the loss of step 1 is ",
                 "SAMPLING.md"},
        Sabotage{"twice-the-gradient", "two-servers", "the loss of step 2 is ",
                 "STEPS.md"},
        Sabotage{"sample-count", "two-servers",
                 "a server ended Exchange with INVALID_ARGUMENT",
                 "What servers refuse"},
        Sabotage{"nan-loss", "two-servers", "loss_sum", "What servers refuse"},
        Sabotage{"fingerprint", "two-servers", "Ready.data.fingerprint is ",
                 "DATA.md"},
        Sabotage{"evaluation-weight", "two-servers", "weight is 0, expected",
                 "What servers refuse"},
        Sabotage{"evaluates-twice", "two-servers", " twice", "WORKER.md"},
        Sabotage{"other-micro-batches", "two-workers",
                 "which no Deal assigned to it", "A step"},
        Sabotage{"old-incarnation", "expired-lease", "Hello.incarnation is 1",
                 "A job from start to end"},
        Sabotage{"old-attempt", "lost-server", "Hello.attempt is 1, expected 2",
                 "item 5"},
        Sabotage{"never-joins-again", "lost-server", "it exited with code 1",
                 "joins again"},
        Sabotage{"always-joins-again", "end-failed-precondition",
                 "it joined again after a server ended Membership with "
                 "FAILED_PRECONDITION",
                 "exit with the message as the error"}),
    [](const auto& info) {
      std::string name = info.param.fault;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

// The time limit must leave a slow machine the time to reach the fault.
class HangingSabotageTest : public PythonConformanceTest {
 protected:
  static std::string OutputOf(const std::string& fault,
                              const std::string& scenario) {
    const CommandResult result = Check(
        absl::StrCat(kPython, " tests/deploy/conformance/sabotaged_worker.py ",
                     fault),
        {"--filter", scenario, "--time-limit", "25"});
    EXPECT_EQ(result.exit_code, 1);
    return result.standard_output;
  }
};

TEST_F(HangingSabotageTest, AWorkerThatNeverSyncsIsNamed) {
  EXPECT_THAT(OutputOf("no-synced", "two-servers"),
              HasSubstr("after 25s: it received version 0 of all chunks, but "
                        "did not send Synced; the protocol: PROTOCOL.md, A "
                        "job from start to end"));
}

TEST_F(HangingSabotageTest, AWorkerThatNeverStopsIsNamed) {
  EXPECT_THAT(OutputOf("never-stops", "stop"),
              HasSubstr("after 25s: it received Finished, but did not leave"));
}

}  // namespace
}  // namespace tributary
