#include "deploy/tools/compare/comparison_report.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "deploy/tools/compare/comparison_plot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/xml_checker.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ComparedRun FinishedRun(const std::string& name, const std::string& transport,
                        double step_ms, const std::string& digest) {
  ComparedRun run;
  run.name = name;
  run.transport = transport;
  run.folder = name;
  run.state = ComparedRun::State::kDone;
  run.losses = {{10, 1, 5.5}, {20, 2, 4.5}};
  run.figures.emplace();
  RunFigures& f = *run.figures;
  f.parameters = 1234567;
  f.steps = 20;
  f.seconds = 2;
  f.step_ms = step_ms;
  f.compute_ms = step_ms / 2;
  f.exchange_ms = step_ms / 4;
  f.waiting_ms = step_ms / 8;
  f.other_ms = step_ms / 8;
  f.predicted_ms = 90;
  f.final_loss = 4.5;
  f.evaluation_loss = 4.25;
  f.weights_sha256 = digest;
  f.processes = {{"server", 0, 2e6, 1e6, 30e6}, {"worker", 0, 1e6, 2e6, 100e6}};
  return run;
}

// A run of every kind.
Comparison Mixed() {
  Comparison comparison;
  comparison.job = "a | b <c>";
  comparison.workers = 2;
  comparison.cores = 4;
  comparison.bandwidth = 1.25e9;
  comparison.runs = {
      FinishedRun("synchronous", "shared memory", 100, "0123456789abcdef"),
      FinishedRun("all_reduce", "TCP", 8, "0123456789abcdef")};
  comparison.runs[1].figures->waiting_ms.reset();
  ComparedRun failed;
  failed.name = "asynchronous";
  failed.transport = "TCP";
  failed.state = ComparedRun::State::kFailed;
  failed.error = "worker-1 <failed>:\nout | of `memory`";
  failed.losses = {{10, 1, NAN}};
  ComparedRun stopped;
  stopped.name = "local_steps";
  stopped.transport = "TCP";
  stopped.state = ComparedRun::State::kStopped;
  ComparedRun waiting;
  waiting.name = "stale_synchronous";
  waiting.transport = "TCP";
  comparison.runs.insert(comparison.runs.end(), {failed, stopped, waiting});
  comparison.left_out = {{"all_reduce_sharded", "it is not allowed"}};
  comparison.hosts = {
      {"the primary", "worker 0 and the server", 3e6, 4e6, 130e6, 55},
      {"the primary", "worker 1", 1e6, 1e6, absl::nullopt, 55}};
  return comparison;
}

TEST(ComparisonReportTest, TableHasARowForEachRun) {
  std::vector<std::vector<std::string>> rows;
  size_t width = 0;
  const std::string table = ComparisonTable(Mixed());
  for (absl::string_view line :
       absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    if (width == 0) width = line.size();
    EXPECT_EQ(line.size(), width) << line;
    rows.emplace_back();
    for (absl::string_view cell : absl::StrSplit(line, '|')) {
      cell = absl::StripAsciiWhitespace(cell);
      if (!cell.empty()) rows.back().emplace_back(cell);
    }
  }
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_THAT(rows[0], ElementsAre("exchange", "over", "step", "predicted",
                                   "compute", "exchange", "waiting", "sent, MB",
                                   "memory, MB", "all, MB", "loss", "weights"));
  EXPECT_THAT(rows[2], ElementsAre("synchronous", "shared memory", "100.0",
                                   "90.0", "50.0", "25.0", "12.5", "3.00",
                                   "100", "130", "4.2500", "01234567"));
  EXPECT_THAT(rows[3],
              ElementsAre("all_reduce", "TCP", "8.00", "90.0", "4.00", "2.00",
                          "-", "3.00", "100", "130", "4.2500", "01234567"));
  EXPECT_EQ(rows[4][2], "failed");
  EXPECT_EQ(rows[4][3], "-");
  EXPECT_EQ(rows[5][2], "stopped");
  EXPECT_EQ(rows[6][2], "not run");
}

TEST(ComparisonReportTest, MarkdownSaysWhatHappened) {
  Comparison comparison = Mixed();
  comparison.model = "external factorization";
  const std::string text = ComparisonMarkdown(comparison);
  for (const char* words :
       {"# a \\| b &lt;c> under 5 exchanges\n", "external factorization",
        "2 workers, 1 thread each", "1,234,567 parameters", "](compare.svg)",
        "bit for bit: synchronous, all_reduce.\n",
        "- asynchronous failed: worker-1 &lt;failed>: out \\| of 'memory'\n",
        "- local_steps was stopped", "- stale_synchronous was not started",
        "- all_reduce_sharded was left out: it is not allowed\n",
        "| synchronous | server 0 |", "10 Gbit/s",
        "| the primary | worker 0 and the server |"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(ComparisonReportTest, ShowsTheBubbleOfAPipeline) {
  Comparison comparison = Mixed();
  EXPECT_EQ(BubbleLines(comparison), "");
  comparison.runs[0].bubble = {0.25, 0.125};
  const std::string line = BubbleLines(comparison);
  EXPECT_THAT(line, HasSubstr("25.0 %"));
  EXPECT_THAT(line, HasSubstr("12.5 %"));
  EXPECT_THAT(ComparisonMarkdown(comparison), HasSubstr(line));
  const auto json = ParseJson(ComparisonJson(comparison).dump());
  EXPECT_EQ(json["runs"][0]["bubble"]["measured"], 0.25);
  EXPECT_EQ(json["runs"][0]["bubble"]["formula"], 0.125);
  EXPECT_EQ(json["runs"][1]["bubble"], nullptr);
}

TEST(ComparisonReportTest, JsonHasAllKeys) {
  // As it is written: what is not finite has become null.
  const auto json = ParseJson(ComparisonJson(Mixed()).dump());
  EXPECT_EQ(json["job"], "a | b <c>");
  EXPECT_EQ(json["workers"], 2);
  ASSERT_EQ(json["runs"].size(), 5u);
  for (const nlohmann::json& run : json["runs"]) {
    for (const char* key : {"exchange", "servers", "transport", "folder",
                            "status", "error", "figures", "bubble", "losses"}) {
      EXPECT_TRUE(run.contains(key)) << key;
    }
  }
  EXPECT_EQ(json["runs"][0]["status"], "done");
  EXPECT_EQ(json["runs"][0]["error"], nullptr);
  EXPECT_EQ(json["runs"][0]["figures"]["predicted_step_ms"], 90);
  EXPECT_EQ(json["runs"][0]["figures"]["processes"][1]["rank"], 0);
  EXPECT_EQ(json["runs"][0]["losses"][1]["loss"], 4.5);
  EXPECT_EQ(json["runs"][1]["figures"]["waiting_ms"], nullptr);
  EXPECT_EQ(json["runs"][2]["status"], "failed");
  EXPECT_THAT(json["runs"][2]["error"], HasSubstr("worker-1"));
  EXPECT_EQ(json["runs"][2]["figures"], nullptr);
  EXPECT_EQ(json["runs"][2]["losses"][0]["loss"], nullptr);
  EXPECT_EQ(json["runs"][4]["status"], "not run");
  EXPECT_EQ(json["left_out"][0]["exchange"], "all_reduce_sharded");
  EXPECT_EQ(json["same_weights"][0][1], "all_reduce");
  EXPECT_EQ(json["hosts"][1]["peak_memory_bytes"], nullptr);
}

TEST(ComparisonPlotTest, ShowsEveryRunAndEveryHost) {
  const std::string svg = ComparisonPlot(Mixed());
  EXPECT_EQ(CheckXml(svg), "");
  for (const char* text :
       {">synchronous<", ">all_reduce<", ">100 ms, shared memory<",
        ">8.00 ms, TCP<", ">failed<", ">stopped<", ">not run<", ">predicted<",
        "<title>server 0: 30.0 MB</title>", "<title>out: 3.00 MB</title>",
        ">worker 0 and the server<", ">Loss over time<",
        ">a | b &lt;c&gt; under 5 exchanges<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ComparisonPlotTest, IsThereForOneRunForTenAndForNone) {
  Comparison comparison;
  EXPECT_EQ(CheckXml(ComparisonPlot(comparison)), "");
  EXPECT_THAT(ComparisonMarkdown(comparison), HasSubstr("under 0 exchanges"));
  for (int i = 0; i < 10; ++i) {
    comparison.runs.push_back(FinishedRun("run", "TCP", 1e-3, ""));
    comparison.runs.back().losses.resize(1);
    const std::string svg = ComparisonPlot(comparison);
    EXPECT_EQ(CheckXml(svg), "");
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace tributary
