// Real processes of a tiny job, under several exchanges.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/xml_checker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCompareCommandJob[] = R"(
name: "tiny"
model { mlp { hidden: 32 hidden: 32 } }
data { random { shape: 8 classes: 4 samples: 64 } }
batch { global: 16 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.05 } }
evaluation { disabled: true }
steps: 20
)";

class CompareTest : public testing::Test {
 protected:
  CompareTest() { WriteJob(kCompareCommandJob); }

  void WriteJob(const std::string& text) {
    WriteWholeFile(folder_ + "/job.textproto", text);
  }

  std::vector<std::string> Command(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {kTributary, "compare",
                                          folder_ + "/job.textproto",
                                          "--output", folder_ + "/out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  nlohmann::json Report() const {
    return ParseJson(ReadWholeFile(folder_ + "/out/compare.json"));
  }

  bool Exists(const std::string& path) const {
    return access(absl::StrCat(folder_, "/out/", path).c_str(), F_OK) == 0;
  }

  // One line on stderr, and exit code 2.
  void ExpectRefusal(const std::vector<std::string>& more,
                     const std::string& message) {
    const CommandResult result = RunExpecting(2, Command(more));
    EXPECT_EQ(result.standard_output, "");
    EXPECT_THAT(result.standard_error, StartsWith("error: "));
    EXPECT_THAT(result.standard_error, HasSubstr(message));
    EXPECT_FALSE(Exists("compare.md"));
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(CompareTest, RunsAJobUnderSeveralExchanges) {
  const CommandResult result = RunExpecting(
      0, Command({"--exchanges",
                  "synchronous,synchronous_sharded,local_steps,all_reduce",
                  "--set", "exchange.transport=WIRE", "--steps", "12"}));
  EXPECT_THAT(result.standard_output, HasSubstr("| all_reduce "));
  EXPECT_THAT(result.standard_output, HasSubstr("/out/compare.svg\n"));

  const nlohmann::json report = Report();
  ASSERT_EQ(report["runs"].size(), 4u);
  const int64_t parameters = 8 * 32 + 32 + 32 * 32 + 32 + 32 * 4 + 4;
  for (const nlohmann::json& run : report["runs"]) {
    const std::string name = run["exchange"];
    const nlohmann::json& figures = run["figures"];
    EXPECT_EQ(run["status"], "done") << name;
    EXPECT_EQ(run["transport"], "TCP") << name;
    EXPECT_EQ(run["losses"].back()["step"], 12) << name;
    EXPECT_GT(figures["step_ms"], 0) << name;
    EXPECT_GT(figures["predicted_step_ms"], 0) << name;
    EXPECT_GT(figures["compute_ms"], 0) << name;
    // Local steps send once in a round, here of all steps.
    EXPECT_GE(figures["bytes_sent_per_step"],
              name == "local_steps" ? 1 : 4 * parameters)
        << name;
    const size_t servers = name == "synchronous_sharded" ? 2 : 1;
    EXPECT_EQ(figures["processes"].size(), 2 + servers) << name;
    EXPECT_TRUE(Exists(name + "/summary.json"));
    EXPECT_FALSE(Exists(name + "/final")) << "models are not kept";
  }
  EXPECT_EQ(
      report["same_weights"],
      ParseJson(R"([["synchronous", "synchronous_sharded", "all_reduce"]])"));
  EXPECT_EQ(report["hosts"].size(), 6u);
  EXPECT_EQ(CheckXml(ReadWholeFile(folder_ + "/out/compare.svg")), "");
  EXPECT_THAT(ReadWholeFile(folder_ + "/out/compare.md"),
              StartsWith("# tiny under 4 exchanges\n"));
}

TEST_F(CompareTest, RunsAPipeline) {
  RunExpecting(
      0, Command({"--exchanges", "pipeline,synchronous", "--steps", "12"}));
  const nlohmann::json report = Report();
  ASSERT_EQ(report["runs"].size(), 2u);
  const nlohmann::json& pipeline = report["runs"][0];
  EXPECT_EQ(pipeline["status"], "done") << pipeline["error"];
  EXPECT_GT(pipeline["bubble"]["measured"], 0);
  EXPECT_LT(pipeline["bubble"]["measured"], 1);
  // Two stages, four micro-batches, ZERO_BUBBLE.
  EXPECT_NEAR(pipeline["bubble"]["formula"].get<double>(), 1.0 / 13, 1e-9);
  EXPECT_EQ(report["runs"][1]["bubble"], nullptr);
  EXPECT_EQ(report["same_weights"],
            ParseJson(R"([["pipeline", "synchronous"]])"));
  EXPECT_FALSE(report["hosts"].empty());
}

TEST_F(CompareTest, GoesOnAfterARunThatFails) {
  // Only local steps have an outer optimizer; this one soon leaves all numbers.
  WriteJob(absl::StrCat(kCompareCommandJob,
                        "exchange { parameter_server { consistency {"
                        "  local_steps { inner_steps: 2 outer_optimizer {"
                        "    learning_rate: 1e6 } } } } }"));
  const CommandResult result = RunExpecting(
      1, Command({"--exchanges", "local_steps,synchronous", "--quiet"}));
  EXPECT_THAT(result.standard_error, HasSubstr("error: local_steps failed: "));
  const nlohmann::json report = Report();
  EXPECT_EQ(report["runs"][0]["status"], "failed");
  EXPECT_THAT(report["runs"][0]["error"], HasSubstr("step"));
  EXPECT_EQ(report["runs"][1]["status"], "done");
  EXPECT_THAT(ReadWholeFile(folder_ + "/out/compare.md"),
              HasSubstr("- local_steps failed: "));
}

TEST_F(CompareTest, AnInterruptLeavesTheReportOfWhatWasDone) {
  BackgroundCommand command(
      Command({"--exchanges", "synchronous,all_reduce,asynchronous", "--steps",
               "100000000", "--quiet"}));
  ASSERT_TRUE(AwaitLines(folder_ + "/out/synchronous/logs/worker-1.log", 1));
  const std::vector<pid_t> children = ChildrenOf(command.pid());
  EXPECT_EQ(children.size(), 3u);
  command.Signal(SIGINT);
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.standard_error;
  for (const pid_t child : children) EXPECT_FALSE(IsAlive(child));
  const nlohmann::json report = Report();
  EXPECT_EQ(report["runs"][0]["status"], "stopped");
  EXPECT_EQ(report["runs"][1]["status"], "not run");
  EXPECT_EQ(report["runs"][2]["status"], "not run");
  EXPECT_FALSE(Exists("all_reduce/summary.json"));
}

TEST_F(CompareTest, SaysWhatIsWrongWithItsArguments) {
  ExpectRefusal({"--exchanges", "synchronus"}, "did you mean synchronous?");
  ExpectRefusal({"--exchanges", "all_reduce,all_reduce"},
                "--exchanges: all_reduce is given twice");
  ExpectRefusal(
      {"--exchanges", "all_reduce", "--set", "exchange.wire_dtype=BFLOAT16"},
      "exchange.wire_dtype");
  ExpectRefusal({"--exchanges", "synchronous_sharded", "--servers", "1"},
                "--servers 2 or more");
  ExpectRefusal({"--workers", "8"}, "raise batch.micro_batches");
  ExpectRefusal({"--workers", "none"}, "--workers");
  ExpectRefusal({"--set", "batch.globl=4"}, "batch.global");
  ExpectRefusal({"--exchange", "synchronous"}, "--exchanges");
}

TEST_F(CompareTest, FilesThatAreMissingAreTheUsersToFix) {
  const CommandResult result = RunExpecting(
      2, Command({"--exchanges", "synchronous,all_reduce", "--quiet", "--set",
                  absl::StrCat("data.csv.train=", folder_, "/none.csv")}));
  EXPECT_THAT(result.standard_error, HasSubstr("none.csv"));
  EXPECT_EQ(Report()["runs"][1]["status"], "failed");
}

TEST_F(CompareTest, KeepsEarlierResultsUnlessToldOtherwise) {
  const std::vector<std::string> once = {"--exchanges", "synchronous",
                                         "--steps", "3", "--quiet"};
  EXPECT_EQ(RunCommand(Command(once)).exit_code, 0);
  const std::string before = ReadWholeFile(folder_ + "/out/compare.json");
  const CommandResult again = RunExpecting(1, Command(once));
  EXPECT_THAT(again.standard_error, HasSubstr("--overwrite"));
  EXPECT_EQ(ReadWholeFile(folder_ + "/out/compare.json"), before);
  std::vector<std::string> replace = once;
  replace.push_back("--overwrite");
  EXPECT_EQ(RunCommand(Command(replace)).exit_code, 0);
}

}  // namespace
}  // namespace tributary
