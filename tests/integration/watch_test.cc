// Traces, early stopping and the checkpoint of the best version, with real
// processes.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/trace_check.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGptJob[] = R"(
name: "tiny"
model { gpt { layers: 1 heads: 2 width: 16 context: 16 } }
data { text { path: "examples/licenses.textproto" } }
batch { global: 8 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.01 weight_decay: 0.1 } }
exchange { parameter_server { chunk_bytes: 4096 } }
evaluation { every_steps: 5 }
checkpoint { every_steps: 7 }
output { log_every_steps: 1 sample_bytes: 0 }
)";

class WatchTest : public testing::Test {
 protected:
  WatchTest() : folder_(MakeTestFolder()), job_(folder_ + "/job.textproto") {
    WriteWholeFile(job_, kGptJob);
  }

  std::vector<std::string> Train(const std::string& output, int steps,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        kTributary,          "train",    job_,        "--steps",
        absl::StrCat(steps), "--output", Path(output)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  nlohmann::json Json(const std::string& name) const {
    return ParseJson(ReadWholeFile(Path(name)));
  }

  // Kills a child of `launcher` that runs `command`, if there is one.
  static void KillChild(const BackgroundCommand& launcher,
                        const std::string& command) {
    for (const pid_t child : ChildrenOf(launcher.pid())) {
      if (!absl::StrContains(CommandLineOf(child), command)) continue;
      kill(child, SIGKILL);
      return;
    }
  }

  const std::string folder_;
  const std::string job_;
};

// The spans of a trace.
struct Spans {
  // The steps of the spans with this name, by process.
  std::map<std::string, std::map<std::string, std::set<int>>> steps;
  int arrows = 0;
};

Spans Summarize(const nlohmann::json& trace) {
  std::map<int, std::string> names;
  Spans spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") {
      names[event["pid"]] = event["args"]["name"];
    }
    if (event["ph"] == "s") ++spans.arrows;
    if (event["ph"] != "X") continue;
    spans.steps[event["name"]][names[event["pid"]]].insert(
        event["args"]["step"].get<int>());
  }
  return spans;
}

class TraceModesTest : public WatchTest,
                       public testing::WithParamInterface<const char*> {};

TEST_P(TraceModesTest, ShowsAllProcesses) {
  const std::string mode = GetParam();
  const bool all_reduce = absl::StrContains(mode, "all_reduce");
  std::vector<std::string> more = {"--trace-steps", "8:12",
                                   "--threads",     "2",
                                   "--servers",     all_reduce ? "1" : "2"};
  if (!mode.empty()) more.insert(more.end(), {"--set", mode});
  const CommandResult result = RunCommand(Train("out", 20, more));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const nlohmann::json trace = Json("out/trace.json");
  ASSERT_TRUE(trace.is_object());
  EXPECT_THAT(TraceErrors(trace), IsEmpty());
  for (const auto& process : trace["otherData"]["processes"]) {
    EXPECT_FALSE(process.contains("missing")) << process;
    EXPECT_LT(process["clock_error_microseconds"], 50000.0);
  }
  Spans spans = Summarize(trace);
  const bool rounds = absl::StrContains(mode, "local_steps");
  const std::set<int> traced =
      rounds ? std::set<int>{2} : std::set<int>{8, 9, 10, 11};
  for (const char* name : {"forward", "backward", "push chunk"}) {
    std::set<int> steps;
    for (const auto& [process, its] : spans.steps[name]) {
      EXPECT_THAT(process, HasSubstr("worker"));
      steps.insert(its.begin(), its.end());
    }
    EXPECT_EQ(steps, traced) << name;
  }
  // Layers of the model.
  EXPECT_FALSE(spans.steps["lm_head"].empty());
  EXPECT_FALSE(spans.steps["new weights"].empty());
  if (!all_reduce) {
    for (const char* name : {"contribution", "update", "publish"}) {
      EXPECT_EQ(spans.steps[name]["server 0"], traced) << name;
      EXPECT_EQ(spans.steps[name]["server 1"], traced) << name;
    }
  } else {
    EXPECT_EQ(spans.steps["update"]["worker 0"], traced);
  }
  EXPECT_GT(spans.arrows, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, TraceModesTest,
    testing::Values(
        "", "exchange.transport=WIRE", "clip_norm=1",
        "exchange.parameter_server.consistency.stale_synchronous.staleness=1",
        "parallel.pipeline={ stages: 2 }",
        "exchange.parameter_server.consistency.asynchronous={}",
        "exchange.parameter_server.consistency.local_steps.inner_steps=4",
        "exchange.all_reduce.backend=GLOO"));

TEST_F(WatchTest, AJobWithoutTraceWritesNone) {
  ASSERT_EQ(RunCommand(Train("out", 5, {})).exit_code, 0);
  EXPECT_NE(access(Path("out/trace.json").c_str(), F_OK), 0);
}

TEST_F(WatchTest, TheTraceDoesNotChangeTheResult) {
  ASSERT_EQ(RunCommand(Train("a", 12, {})).exit_code, 0);
  ASSERT_EQ(RunCommand(Train("b", 12, {"--trace-steps", "0:12"})).exit_code, 0);
  EXPECT_EQ(Json("a/summary.json")["weights_sha256"],
            Json("b/summary.json")["weights_sha256"]);
}

TEST_F(WatchTest, TracesAJobThatLosesAWorker) {
  ASSERT_EQ(RunCommand(Train("a", 600, {})).exit_code, 0);
  nlohmann::json trace;
  RunUntilItHits([&] {
    std::filesystem::remove_all(Path("b"));
    BackgroundCommand disturbed(
        Train("b", 600,
              {"--workers", "3", "--servers", "2", "--trace-steps", "10:600"}));
    EXPECT_TRUE(AwaitLines(Path("b/metrics.jsonl"), 30));
    KillChild(disturbed, " worker ");
    const CommandResult result = disturbed.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    trace = Json("b/trace.json");
    // The records that the killed process had not sent are missing, and the
    // file says so.
    for (const auto& process : trace["otherData"]["processes"]) {
      if (absl::StrContains(process.value("missing", ""), "lost")) return true;
    }
    return false;
  });
  EXPECT_EQ(Json("a/summary.json")["weights_sha256"],
            Json("b/summary.json")["weights_sha256"]);
  ASSERT_TRUE(trace.is_object());
  EXPECT_THAT(TraceErrors(trace), IsEmpty());
  // Every traced step was applied on both servers.
  Spans spans = Summarize(trace);
  EXPECT_EQ(spans.steps["update"]["server 0"].size(), 590u);
  EXPECT_EQ(spans.steps["update"]["server 1"].size(), 590u);
}

TEST_F(WatchTest, RefusesStepsThatCannotBeTraced) {
  for (const char* steps : {"3", "5:5", "9:8", "0:1001", "-1:4", "a:b"}) {
    const CommandResult result = RunExpecting(
        2, Train("out", 5, {absl::StrCat("--trace-steps=", steps)}));
    EXPECT_THAT(result.standard_error, HasSubstr("trace"));
  }
}

class EarlyStopTest : public WatchTest,
                      public testing::WithParamInterface<const char*> {};

TEST_P(EarlyStopTest, StopsAndKeepsTheEvaluatedVersion) {
  const std::string mode = GetParam();
  std::vector<std::string> more = {
      "--workers", "2",
      "--set",     "stop_when.target=3.1",
      "--set",     "checkpoint.best=EVALUATION_LOSS"};
  if (!mode.empty()) more.insert(more.end(), {"--set", mode});
  const CommandResult result = RunCommand(Train("out", 5000, more));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, HasSubstr("stopped      after step"));
  const nlohmann::json summary = Json("out/summary.json");
  EXPECT_EQ(summary["status"], "done");
  const int64_t steps = summary["steps"];
  EXPECT_LT(steps, 5000);
  EXPECT_EQ(summary["evaluation"]["step"], steps);
  EXPECT_LE(summary["evaluation"]["loss"], 3.1);
  EXPECT_THAT(summary["stop_reason"].get<std::string>(),
              HasSubstr("has reached stop_when.target"));
  // The last version is also the best one.
  EXPECT_EQ(summary["best"]["step"], steps);
  RunExpecting(0, {kTributary, "checkpoint", "verify", Path("out/best")});
  // A job that has stopped early is done.
  const CommandResult again =
      RunCommand({kTributary, "train", "--resume", Path("out")});
  ASSERT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_EQ(Json("out/summary.json")["weights_sha256"],
            summary["weights_sha256"]);
  EXPECT_EQ(Json("out/summary.json")["steps"], steps);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, EarlyStopTest,
    testing::Values(
        "", "exchange.parameter_server.consistency.asynchronous={}",
        "exchange.parameter_server.consistency.stale_synchronous.staleness=1",
        "exchange.parameter_server.consistency.local_steps.inner_steps=4",
        "exchange.all_reduce.backend=GLOO"));

TEST_F(WatchTest, ResultsDoNotDependOnProcessesOrInterruptions) {
  const std::vector<std::string> rule = {"--set", "stop_when.target=3", "--set",
                                         "checkpoint.best=EVALUATION_LOSS",
                                         "--quiet"};
  ASSERT_EQ(RunCommand(Train("a", 5000, rule)).exit_code, 0);
  std::vector<std::string> others = rule;
  others.insert(others.end(), {"--workers", "3", "--servers", "2"});
  RunUntilItHits([&] {
    std::filesystem::remove_all(Path("b"));
    BackgroundCommand interrupted(Train("b", 5000, others));
    EXPECT_TRUE(AwaitLines(Path("b/metrics.jsonl"), 5));
    // The job goes back to its newest checkpoint, or to step 0.
    KillChild(interrupted, " server ");
    const CommandResult result = interrupted.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return Json("b/summary.json").value("attempt", 0) >= 2;
  });
  const nlohmann::json a = Json("a/summary.json");
  const nlohmann::json b = Json("b/summary.json");
  for (const char* field : {"steps", "weights_sha256", "stop_reason", "best"}) {
    EXPECT_EQ(a[field], b[field]) << field;
  }
  RunExpecting(
      0, {kTributary, "checkpoint", "diff", Path("a/best"), Path("b/best")});
}

}  // namespace
}  // namespace tributary
