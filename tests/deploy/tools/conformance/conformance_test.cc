// `tributary conformance` with workers that follow the protocol, and with
// workers that do not, each of which must be told why.
#include <signal.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kAsynchronous[] =
    "exchange.parameter_server.consistency={asynchronous {}}";

std::vector<std::string> CheckCommand(const std::string& worker,
                                      const std::vector<std::string>& flags) {
  std::vector<std::string> command = {kTributary, "conformance",
                                      "--worker-command", worker};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

CommandResult Check(const std::string& worker,
                    const std::vector<std::string>& flags) {
  BackgroundCommand check(CheckCommand(worker, flags));
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

// Some micro-batches have no keys of a server's buckets, so messages are empty.
TEST(ConformanceTest, TheBuiltInWorkerPassesWithTables) {
  const std::string job = MakeTestFolder() + "/job.textproto";
  WriteWholeFile(job, R"(
      model { dlrm { bottom: 4 } }
      data { clicks { samples: 400 evaluation_samples: 20 scale: 0.0005 } }
      batch { global: 16 micro_batches: 4 }
      optimizer { sgd { learning_rate: 0.01 } }
      steps: 8
      sparse {
        table { name: "t" dim: 4 buckets: 3 adagrad { learning_rate: 0.1 } }
        feature { column: "C9" table: "t" }
      })");
  const CommandResult result =
      Check(BuiltIn(), {"--job", job, "--filter", "two"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_output;
  EXPECT_THAT(result.standard_output, AllOf(HasSubstr("two-servers  passed"),
                                            HasSubstr("two-workers  passed")));
  const CommandResult asynchronous = Check(
      BuiltIn(), {"--job", job, "--filter", "two", "--set", kAsynchronous});
  EXPECT_EQ(asynchronous.exit_code, 0) << asynchronous.standard_output;
  const CommandResult rows =
      Check(BuiltIn(), {"--job", job, "--filter", "eight-bit-rows"});
  EXPECT_EQ(rows.exit_code, 0) << rows.standard_output;
  EXPECT_THAT(rows.standard_output, HasSubstr("eight-bit-rows  passed"));
}

TEST(ConformanceTest, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--filter", "nothing"}, "--filter nothing: "},
      {{"--set", "exchange.all_reduce={}"}, "exchange.parameter_server"},
      {{"--set", "batch.micro_batches=-1"}, "batch.micro_batches: -1 "},
      {{"--filter", "bfloat16", "--set", "exchange.compression={eight_bit {}}"},
       "none of the selected scenarios"},
  };
  for (const auto& [flags, name] : cases) {
    EXPECT_THAT(Check("x", flags).standard_error, HasSubstr(name));
  }
  const CommandResult missing = RunExpecting(2, {kTributary, "conformance"});
  EXPECT_THAT(missing.standard_error, HasSubstr("--worker-command"));
  const CommandResult none =
      Check("/nowhere/worker", {"--filter", "late-join"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.standard_output, ContainsRegex("FAILED: .*code 127"));
  EXPECT_THAT(none.standard_error, HasSubstr("logs are in "));
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
              ContainsRegex("after 1s: .*Membership.*PROTOCOL.md"));
}

TEST(ConformanceTest, ASignalStopsIt) {
  const std::string folder = MakeTestFolder();
  for (const char* const scenario : {"late-join", "end-out-of-range"}) {
    for (const int number : {SIGINT, SIGTERM}) {
      const std::string started = absl::StrCat(folder, "/", scenario, number);
      BackgroundCommand check(
          {kTributary, "conformance", "--worker-command",
           absl::StrCat("sh -c 'echo x > ", started, "; exec sleep 1000'"),
           "--filter", scenario});
      ASSERT_TRUE(AwaitLines(started, 1));
      check.Signal(number);
      const CommandResult result = check.Wait();
      EXPECT_EQ(result.exit_code, number == SIGINT ? 130 : 75);
      EXPECT_EQ(result.standard_output, "");
      EXPECT_THAT(result.standard_error,
                  HasSubstr(number == SIGINT ? "stopped by SIGINT"
                                             : "stopped by SIGTERM"));
    }
  }
}

TEST(ConformanceTest, AWorkerMayWriteWhatIsNotUtf8) {
  const CommandResult result =
      Check(R"(sh -c 'printf "error: caf\351\n" >&2; exit 1')",
            {"--filter", "late-join", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json report = ParseJson(result.standard_output);
  ASSERT_EQ(report.value("failed", 0), 1) << result.standard_output;
  EXPECT_THAT(report["scenarios"][0].value("what", ""),
              HasSubstr("caf\xEF\xBF\xBD"));
}

// A mode of the exchange.
struct Mode {
  std::string name;
  std::vector<std::string> sets;
  // For the worker in Python, which is slow: the scenarios to run.
  std::string filter;

  friend void PrintTo(const Mode& mode, std::ostream* out) {
    *out << mode.name;
  }
};

constexpr char kLocalSteps[] =
    "exchange.parameter_server.consistency={local_steps {inner_steps: 3}}";
constexpr char kTopK[] = "exchange.compression={top_k {fraction: 0.1}}";

std::vector<Mode> Modes() {
  return {{"LocalSteps", {kLocalSteps}, "wo"},
          {"Asynchronous", {kAsynchronous}, "lost"},
          {"TopK", {kTopK}, "tr"},
          {"EightBit", {"exchange.compression={eight_bit {}}"}, "two"},
          {"Float16", {"exchange.wire_dtype=FLOAT16"}, "train"},
          {"LocalStepsOfEightBit",
           {kLocalSteps, "exchange.compression={eight_bit {}}"},
           "two-servers"}};
}

std::vector<std::string> FlagsOf(const Mode& mode) {
  std::vector<std::string> flags = {"--json"};
  for (const std::string& set : mode.sets) {
    flags.insert(flags.end(), {"--set", set});
  }
  return flags;
}

void ExpectPassed(const CommandResult& result, size_t least) {
  EXPECT_EQ(result.exit_code, 0)
      << result.standard_output << result.standard_error;
  const nlohmann::json report = ParseJson(result.standard_output);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.value("failed", -1), 0);
  EXPECT_GE(report.value("passed", size_t{0}), least);
}

class ModeConformanceTest : public testing::TestWithParam<Mode> {};

TEST_P(ModeConformanceTest, TheBuiltInWorkerPasses) {
  std::vector<std::string> flags = FlagsOf(GetParam());
  ExpectPassed(Check(BuiltIn(), flags), 19);
}

INSTANTIATE_TEST_SUITE_P(Slow, ModeConformanceTest, testing::ValuesIn(Modes()),
                         [](const auto& info) { return info.param.name; });

// Only the loss of the first step has an expected value.
TEST(ConformanceTest, TheBuiltInWorkerPassesWithBoundedStaleness) {
  ExpectPassed(
      Check(BuiltIn(),
            {"--json", "--filter", "two", "--set",
             "exchange.parameter_server.consistency={stale_synchronous "
             "{staleness: 2}}"}),
      2);
}

// The job ends before the version at which longer jobs are interrupted.
TEST(ConformanceTest, AJobOfFewEpochsIsInterruptedBeforeItsEnd) {
  const std::string job = MakeTestFolder() + "/job.textproto";
  WriteWholeFile(job, R"(
      model { mlp { hidden: [8] } }
      data { random { samples: 64 shape: [4] } }
      batch { global: 32 micro_batches: 8 }
      optimizer { sgd { learning_rate: 0.01 } }
      epochs: 1.5
      exchange { parameter_server {} }
      output { sample_bytes: 0 })");
  ExpectPassed(
      Check(BuiltIn(), {"--json", "--filter", "late-join", "--job", job}), 1);
}

// The tap requires a certificate and a token.
TEST(ConformanceTest, WorkersUseTheCredentials) {
  const std::string folder = MakeTestFolder();
  ASSERT_EQ(RunCommand({kTributary, "certs", folder + "/tls"}).exit_code, 0);
  WriteWholeFile(folder + "/token", "a-token-of-this-test-only-0123456789\n");
  const std::vector<std::string> flags = {
      "--json",        "--filter",     "two-servers",    "--tls-dir",
      folder + "/tls", "--token-file", folder + "/token"};
  ExpectPassed(Check(BuiltIn(), flags), 1);
  // A worker that ignores them is refused.
  const CommandResult refused =
      Check(absl::StrCat("env -u TRIBUTARY_TOKEN_FILE ", BuiltIn()), flags);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.standard_output, HasSubstr("token"));
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
  EXPECT_EQ(report["passed"], 20);
  EXPECT_EQ(report["scenarios"][0]["name"], "train");
}

class PythonModeConformanceTest : public PythonConformanceTest,
                                  public testing::WithParamInterface<Mode> {};

TEST_P(PythonModeConformanceTest, TheWorkerInPythonPasses) {
  std::vector<std::string> flags = FlagsOf(GetParam());
  flags.insert(flags.end(), {"--filter", GetParam().filter});
  ExpectPassed(
      Check(absl::StrCat(kPython, " examples/python_wire/worker.py"), flags),
      1);
}

INSTANTIATE_TEST_SUITE_P(Slow, PythonModeConformanceTest,
                         testing::ValuesIn(Modes()),
                         [](const auto& info) { return info.param.name; });

TEST_F(PythonConformanceTest, TheWorkerInPythonUsesTls) {
  const std::string tls = MakeTestFolder() + "/tls";
  ASSERT_EQ(RunCommand({kTributary, "certs", tls}).exit_code, 0);
  ExpectPassed(Check(absl::StrCat(kPython, " examples/python_wire/worker.py"),
                     {"--json", "--filter", "two-servers", "--tls-dir", tls}),
               1);
}

struct Sabotage {
  std::string fault;     // See sabotaged_worker.py.
  std::string scenario;  // That finds it.
  std::string what;      // This and `rule` are regular expressions.
  std::string rule;
  std::string set;  // Change of the job; empty: none.

  friend void PrintTo(const Sabotage& sabotage, std::ostream* out) {
    *out << sabotage.fault;
  }
};

class SabotageTest : public PythonConformanceTest,
                     public testing::WithParamInterface<Sabotage> {};

TEST_P(SabotageTest, IsNamed) {
  const Sabotage& sabotage = GetParam();
  std::vector<std::string> flags = {"--filter", sabotage.scenario, "--json"};
  if (!sabotage.set.empty()) {
    flags.insert(flags.end(), {"--set", sabotage.set});
  }
  const CommandResult result =
      Check(absl::StrCat(kPython,
                         " tests/deploy/tools/conformance/sabotaged_worker.py ",
                         sabotage.fault),
            flags);
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json report = ParseJson(result.standard_output);
  ASSERT_EQ(report["failed"], 1) << result.standard_output;
  const nlohmann::json& scenario = report["scenarios"][0];
  EXPECT_EQ(scenario["name"], sabotage.scenario);
  EXPECT_THAT(scenario.value("what", ""), ContainsRegex(sabotage.what));
  EXPECT_THAT(scenario.value("rule", ""), ContainsRegex(sabotage.rule));
}

std::string NameOf(const testing::TestParamInfo<Sabotage>& info) {
  return absl::StrReplaceAll(info.param.fault, {{"-", "_"}});
}

// One for each kind of finding: in the result, in a message, by a server, in
// what follows a loss.
INSTANTIATE_TEST_SUITE_P(
    All, SabotageTest,
    testing::Values(
        Sabotage{"other-samples", "two-servers", "loss of step 1", "SAMPLING"},
        Sabotage{"sample-count", "two-servers",
                 "(Exchange|Membership) with INVALID_ARGUMENT: contribution of",
                 "What servers refuse"},
        Sabotage{"fingerprint", "two-servers", "Ready.data.fingerprint is ",
                 "DATA.md"},
        Sabotage{"old-attempt", "lost-server", "Hello.attempt is 1, expected 2",
                 "item 5"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Slow, SabotageTest,
    testing::Values(
        Sabotage{"twice-the-gradient", "two-servers", "loss of step 2",
                 "STEPS.md"},
        Sabotage{"nan-loss", "two-servers", "loss_sum", "What servers refuse"},
        Sabotage{"evaluation-weight", "two-servers", "weight is 0, expected",
                 "What servers refuse"},
        Sabotage{"evaluates-twice", "two-servers", " twice", "WORKER.md"},
        // If the first Deal contained all micro-batches, because the second
        // worker joined late, only the server finds the mistake.
        Sabotage{"other-micro-batches", "two-workers",
                 "no Deal assigned|not in the worker's assignment",
                 "A step|What servers refuse"},
        // The worker's first lease, too, may expire on a slow machine.
        Sabotage{"old-incarnation", "expired-lease",
                 "Hello.incarnation is [0-9]+", "A job from start to end"},
        Sabotage{"forgets-the-residual", "train", "left out of a step",
                 "ENCODINGS.md, Compression", kTopK},
        Sabotage{"rounds-to-zero", "bfloat16", "rounds sums to 16 bits",
                 "ties to even"},
        Sabotage{"mean-of-local-steps", "train", "sums of an earlier round",
                 "STEPS.md, local_steps", kLocalSteps},
        Sabotage{"never-averages", "train", "does not start each round",
                 "STEPS.md, local_steps", kLocalSteps},
        Sabotage{"old-weights", "train", "had received version 1",
                 "newest versions", kAsynchronous},
        Sabotage{"another-lease", "train", "Contribution to step 1",
                 "PROTOCOL.md, asynchronous", kAsynchronous},
        Sabotage{"never-joins-again", "lost-server", "exited with code 1",
                 "joins again"},
        Sabotage{"always-joins-again", "end-failed-precondition",
                 "joined again after .*FAILED_PRECONDITION", "exit with"}),
    NameOf);

using SlowPythonConformanceTest = PythonConformanceTest;

// Workers that hang. Their scenarios run at the same time, because each takes
// as long as its time limit, which must leave a slow machine the time to reach
// the fault.
TEST_F(SlowPythonConformanceTest, WorkersThatHangAreNamed) {
  struct Hanging {
    std::string fault;
    std::string scenario;
    std::vector<std::string> words;  // Of the message.
    std::unique_ptr<BackgroundCommand> check = nullptr;
  };
  Hanging workers[] = {
      {"no-synced", "two-servers", {"after 30s", "Synced", "PROTOCOL.md"}},
      {"hangs-after-a-loss", "lost-server", {"after 30s", "join again"}},
      {"never-stops", "stop", {"after 30s", "Finished"}},
      {"ignores-a-second-open",
       "lost-initializer",
       {"after 30s", "Initial", "item 4"}},
  };
  for (Hanging& worker : workers) {
    worker.check = std::make_unique<BackgroundCommand>(CheckCommand(
        absl::StrCat(kPython,
                     " tests/deploy/tools/conformance/sabotaged_worker.py ",
                     worker.fault),
        {"--filter", worker.scenario, "--time-limit", "30"}));
  }
  for (Hanging& worker : workers) {
    const CommandResult result = worker.check->Wait(absl::Minutes(4));
    EXPECT_EQ(result.exit_code, 1) << worker.fault;
    for (const std::string& word : worker.words) {
      EXPECT_THAT(result.standard_output, HasSubstr(word));
    }
  }
}

}  // namespace
}  // namespace tributary
