// `tributary tune` as users run it.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "deploy/flags/run_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/commands/tune_command_fixture.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TuneCommandTest : public TuneCommandFixture {};

TEST_F(TuneCommandTest, TheWinnerIsTheSameForAnyParallelAndAfterKills) {
  const CommandResult one = RunExpecting(0, TuneArguments("one", {}));
  EXPECT_THAT(one.standard_output, HasSubstr("best trial"));
  const Json want = StatusOfStudy("one");
  EXPECT_EQ(want["trials"].size(), 9u);
  EXPECT_TRUE(want["done"].get<bool>());
  const int best = want["best"][0].get<int>();
  EXPECT_EQ(want["trials"][best]["weights_sha256"].get<std::string>().size(),
            64u);

  RunExpecting(0, TuneArguments("three", {"--parallel", "3"}));
  EXPECT_EQ(StatusOfStudy("three"), want);

  // Killed after different numbers of lines of the journal.
  std::vector<std::string> arguments = TuneArguments("killed", {});
  for (const int lines : {3, 9, 16, 25}) {
    KillAfter(lines, "killed", arguments);
    arguments = {kTributary,       "tune",       "--resume",
                 Folder("killed"), "--parallel", "2"};
  }
  RunExpecting(0, arguments);
  EXPECT_EQ(StatusOfStudy("killed"), want);

  // The job of the best trial, trained as a whole, gives the same weights.
  const std::string job = Folder("best.textproto");
  RunExpecting(
      0, {kTributary, "tune", "best", Folder("one"), "--export-job", job});
  RunExpecting(
      0, {kTributary, "train", job, "--output", Folder("whole"), "--quiet"});
  EXPECT_EQ((*ReadRunSummary(Folder("whole")))["weights_sha256"],
            want["trials"][best]["weights_sha256"]);
}

constexpr char kPopulation[] = R"(
  job: "job.textproto"
  parameter { path: "optimizer.sgd.learning_rate"
              number { low: 1e-3 high: 1 log: true } }
  parameter { path: "model.mlp.dropout" number { low: 0 high: 0.4 } }
  objective { metric: "final_loss" goal: MINIMIZE }
  scheduler { population_based { population: 4 every_steps: 9 } }
)";

TEST_F(TuneCommandTest, APopulationIsTheSameForAnyParallelAndAfterKills) {
  WriteWholeFile(search_, kPopulation);
  RunExpecting(0, TuneArguments("one", {}));
  const Json want = StatusOfStudy("one");
  ASSERT_EQ(want["trials"].size(), 12u);
  EXPECT_TRUE(want["done"].get<bool>());

  const CommandResult four =
      RunExpecting(0, TuneArguments("four", {"--parallel", "4"}));
  EXPECT_EQ(StatusOfStudy("four"), want);
  EXPECT_THAT(four.standard_error, Not(HasSubstr("differs from that of")));

  std::vector<std::string> arguments = TuneArguments("killed", {});
  for (const int lines : {4, 18, 33}) {
    KillAfter(lines, "killed", arguments);
    arguments = {kTributary,       "tune",       "--resume",
                 Folder("killed"), "--parallel", "2"};
  }
  RunExpecting(0, arguments);
  EXPECT_EQ(StatusOfStudy("killed"), want);

  // A run whose values are changed by hand has the weights of the member that
  // has replaced another one in the last generation.
  std::vector<Json> replaced;
  for (const Json& trial : want["trials"]) {
    if (trial["parent"].is_null()) continue;
    if (trial["trial"].get<int>() - trial["parent"].get<int>() != 4) {
      replaced.push_back(trial);
    }
  }
  ASSERT_EQ(replaced.size(), 2u);  // One in each of the later generations.
  std::vector<Json> lineage = {replaced.back()};
  while (!lineage.front()["parent"].is_null()) {
    const int parent = lineage.front()["parent"].get<int>();
    lineage.insert(lineage.begin(), want["trials"][parent]);
  }
  ASSERT_EQ(lineage.size(), 3u);
  EXPECT_NE(lineage[1]["values"], lineage[2]["values"]);
  for (const Json& trial : lineage) {
    const std::string job = Folder("by_hand.textproto");
    WriteWholeFile(
        job, absl::StrReplaceAll(
                 kTuneJob,
                 {{"decay: COSINE", "decay: COSINE decay_steps: 27"},
                  {"\n  steps: 27", "\n  steps: " + trial["steps"].dump()}}));
    std::vector<std::string> train = {
        kTributary, "train",    job,    "--output",           Folder("by"),
        "--quiet",  "--resume", "auto", "--allow-job-changes"};
    for (const auto& [path, value] : trial["values"].items()) {
      train.insert(train.end(),
                   {"--set", absl::StrCat(path, "=", value.dump())});
    }
    RunExpecting(0, train);
  }
  EXPECT_EQ((*ReadRunSummary(Folder("by")))["weights_sha256"],
            lineage.back()["weights_sha256"]);

  // Only the last generation has models, and only of the best trial.
  EXPECT_EQ(RunCommand(
                {"/bin/sh", "-c",
                 "ls -d " + Folder("killed") + "/trials/*/checkpoints | wc -l"})
                .standard_output,
            "1\n");
}

TEST_F(TuneCommandTest, TheFinalEvaluationIsTheSameAfterKills) {
  WriteWholeFile(search_,
                 absl::StrCat(kTuneSearch, "final { best: 2 seeds: 3 }"));
  const CommandResult one =
      RunExpecting(0, TuneArguments("one", {"--parallel", "3"}));
  EXPECT_THAT(one.standard_output, HasSubstr("deviation"));
  const Json want = StatusOfStudy("one");
  EXPECT_TRUE(want["done"].get<bool>());

  std::vector<std::string> arguments = TuneArguments("killed", {});
  // The search writes 25 lines, and the final evaluation three.
  for (const int lines : {20, 26, 27}) {
    KillAfter(lines, "killed", arguments);
    arguments = {kTributary, "tune", "--resume", Folder("killed")};
  }
  RunExpecting(0, arguments);
  EXPECT_EQ(StatusOfStudy("killed"), want);

  // With three rungs, eta 3 and 9 trials, one trial is complete.
  ASSERT_EQ(want["final"].size(), 1u);
  const Json& winner = want["final"][0];
  EXPECT_EQ(want["best"], Json::array({winner["trial"]}));
  ASSERT_EQ(winner["seeds"].size(), 3u);
  double sum = 0;
  for (const Json& seed : winner["seeds"]) {
    sum += seed["objectives"][0].get<double>();
  }
  EXPECT_NEAR(winner["mean"][0].get<double>(), sum / 3, 1e-12);
  EXPECT_NE(winner["seeds"][0]["weights_sha256"],
            winner["seeds"][1]["weights_sha256"]);

  // A run of the final evaluation is that of the exported job with its seed.
  const std::string job = Folder("best.textproto");
  EXPECT_THAT(RunExpecting(0, {kTributary, "tune", "best", Folder("one"),
                               "--export-job", job})
                  .standard_output,
              HasSubstr("over 3 seeds"));
  RunExpecting(0, {kTributary, "train", job, "--set", "seed=3", "--output",
                   Folder("whole"), "--quiet"});
  EXPECT_EQ((*ReadRunSummary(Folder("whole")))["weights_sha256"],
            winner["seeds"][2]["weights_sha256"]);
}

TEST_F(TuneCommandTest, APopulationRefusesFieldsThatCannotChange) {
  WriteWholeFile(search_, absl::StrCat(kPopulation, R"(
    parameter { path: "model.mlp.hidden" choice { value: "8" value: "9" } })"));
  const CommandResult result = RunExpecting(2, TuneArguments("refused", {}));
  EXPECT_THAT(result.standard_error, HasSubstr("model.mlp.hidden"));
  EXPECT_EQ(result.standard_error.find('\n'), result.standard_error.size() - 1);
  RunExpecting(2, {kTributary, "tune", "status", Folder("refused")});
}

TEST_F(TuneCommandTest, TheWinnerIsTheSameForTrialsOfDifferentSpeeds) {
  WriteWholeFile(search_, R"(
    job: "job.textproto"
    set: "batch.global=256"
    set: "data.random.samples=256"
    parameter { path: "optimizer.sgd.learning_rate"
                number { low: 1e-3 high: 0.1 log: true } }
    parameter { path: "model.mlp.hidden"
                choice { value: "4" value: "2048,2048" } }
    objective { metric: "final_loss" goal: MINIMIZE }
    scheduler { successive_halving { rungs: 3 } }
    budget { trials: 9 }
  )");
  RunExpecting(0, TuneArguments("1", {}));
  const Json want = StatusOfStudy("1");
  for (const char* const parallel : {"2", "4"}) {
    RunExpecting(0, TuneArguments(parallel, {"--parallel", parallel}));
    EXPECT_EQ(StatusOfStudy(parallel), want);
  }
  // The steps of some trials take more than ten times as long as those of
  // others, unless other programs delay the short steps.
  std::vector<double> speeds;
  for (const Json& trial : want["trials"]) {
    const Json summary = *ReadRunSummary(absl::StrFormat(
        "%s/trials/%05d", Folder("1"), trial["trial"].get<int>()));
    speeds.push_back(summary["samples_per_second"].get<double>());
  }
  EXPECT_GT(*std::max_element(speeds.begin(), speeds.end()),
            3 * *std::min_element(speeds.begin(), speeds.end()));
}

TEST_F(TuneCommandTest, TrialsShareDecodedData) {
  ReadRows();
  WriteWholeFile(search_, kTuneTwoTrials);
  RunExpecting(0, TuneArguments("none", {"--data-cache", "none"}));
  const Json want = StatusOfStudy("none");
  EXPECT_TRUE(want["done"].get<bool>());

  // The folder of the study is removed at the end, and one of the user's not.
  RunExpecting(0, TuneArguments("study", {"--parallel", "2"}));
  EXPECT_EQ(StatusOfStudy("study"), want);
  EXPECT_FALSE(std::filesystem::exists(Folder("study") + "/decoded"));
  const std::string cache = Folder("cache");
  const auto files = [&cache] {
    return std::vector<std::filesystem::path>(
        std::filesystem::directory_iterator(cache),
        std::filesystem::directory_iterator());
  };
  RunExpecting(0, TuneArguments("own", {"--data-cache", cache}));
  EXPECT_EQ(StatusOfStudy("own"), want);
  ASSERT_EQ(files().size(), 1u);
  // Trials read this file: with other labels in it, the search ends otherwise.
  std::string bytes = ReadWholeFile(files()[0].string());
  const std::string row(bytes.substr(bytes.size() - 16));
  for (size_t i = bytes.size() - 64 * 16; i < bytes.size(); i += 16) {
    bytes.replace(i, 16, row);
  }
  WriteWholeFile(files()[0].string(), bytes);
  RunExpecting(0, TuneArguments("other", {"--data-cache", cache}));
  EXPECT_NE(StatusOfStudy("other"), want);

  // One warning for all trials.
  const CommandResult without = RunExpecting(
      0, TuneArguments("without", {"--data-cache", Folder("rows.csv/decoded"),
                                   "--quiet"}));
  EXPECT_EQ(StatusOfStudy("without"), want);
  EXPECT_THAT(without.standard_error, HasSubstr("decodes the data itself"));
  EXPECT_EQ(std::count(without.standard_error.begin(),
                       without.standard_error.end(), '\n'),
            1);
}

TEST_F(TuneCommandTest, SigtermStopsItSoThatItCanBeResumed) {
  const std::string journal = Folder("stopped") + "/study.journal";
  WorkerGate gate(Folder("gate"));
  gate.Admit(6);  // The search needs more.
  {
    BackgroundCommand command(TuneArguments("stopped", gate.Arguments()));
    ASSERT_TRUE(AwaitLines(journal, 6));
    command.Signal(SIGTERM);
    const CommandResult result = command.Wait();
    EXPECT_EQ(result.exit_code, 75);
    EXPECT_THAT(result.standard_error, HasSubstr("--resume"));
  }
  EXPECT_FALSE(StatusOfStudy("stopped")["done"].get<bool>());
  // Without --resume, nothing is overwritten.
  EXPECT_THAT(RunExpecting(1, TuneArguments("stopped", {})).standard_error,
              HasSubstr("--resume"));
  gate.AdmitAll();
  RunExpecting(0, {kTributary, "tune", search_, "--resume", Folder("stopped")});
  EXPECT_TRUE(StatusOfStudy("stopped")["done"].get<bool>());
}

TEST_F(TuneCommandTest, SigtermStopsItWhileTheSamplerHangs) {
  WriteWholeFile(search_, absl::StrCat(R"(
    job: "job.textproto"
    parameter { path: "optimizer.sgd.learning_rate"
                number { low: 1e-3 high: 1 } }
    objective { metric: "final_loss" goal: MINIMIZE }
    sampler { optuna {} }
    lookahead: 2
    budget { trials: 4 })"));
  // Proposes one trial, in place of Python and Optuna.
  const std::string python = Folder("python");
  WriteWholeFile(python, absl::StrCat(R"(#!/bin/sh
read search
echo '{}'
read first
echo '{"params": {"optimizer.sgd.learning_rate": 0.5}}'
read second
echo hangs >)",
                                      Folder("hangs"), "\nexec sleep 1000\n"));
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  BackgroundCommand command(
      TuneArguments("hanging", {"--parallel", "2", "--python", python}));
  ASSERT_TRUE(AwaitLines(Folder("hangs"), 1));
  command.Signal(SIGTERM);
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.standard_error, HasSubstr("--resume"));
  EXPECT_EQ(StatusOfStudy("hanging")["trials"].size(), 1u);
}

TEST_F(TuneCommandTest, TrialsThatFailAreRecordedWithTheirReason) {
  WriteWholeFile(search_, absl::StrCat(R"(
    job: "job.textproto"
    parameter { path: "optimizer.sgd.learning_rate"
                choice { value: "1e30" value: "0.1" value: "-1" } }
    objective { metric: "final_loss" goal: MINIMIZE }
    sampler { grid {} })"));
  RunExpecting(0, TuneArguments("failing", {}));
  const Json status = StatusOfStudy("failing");
  EXPECT_EQ(status["best"], Json({1}));
  EXPECT_EQ(status["trials"][0]["state"], "failed");
  EXPECT_THAT(status["trials"][2]["failure"].get<std::string>(),
              HasSubstr("learning_rate"));
}

TEST_F(TuneCommandTest, ATrialWaitsForTheProcessThatHoldsItsFolder) {
  WriteWholeFile(search_, kTuneTwoTrials);
  WorkerGate gate(Folder("gate"));
  KillAfter(2, "busy", TuneArguments("busy", gate.Arguments()));
  gate.AdmitAll();
  const std::string trial = Folder("busy") + "/trials/00000";
  std::filesystem::create_directories(trial);
  const int fd = open(trial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  BackgroundCommand command({kTributary, "tune", "--resume", Folder("busy")});
  EXPECT_THAT(command.AwaitStandardError("trial 0 waits"), HasSubstr(trial));
  EXPECT_NE(command.AwaitStandardError("trial 1: step"), "");
  close(fd);
  EXPECT_EQ(command.Wait().exit_code, 0);
  const Json status = StatusOfStudy("busy");
  ASSERT_EQ(status["trials"].size(), 2u);
  EXPECT_EQ(status["trials"][0]["state"], "complete");
  EXPECT_EQ(status["trials"][1]["state"], "complete");
}

TEST_F(TuneCommandTest, FailsIfNoTrialIsCompleted) {
  ReadRows();
  WriteWholeFile(search_, absl::StrCat(R"(
    job: "job.textproto"
    parameter { path: "seed" integer { low: 1 high: 2 } }
    objective { metric: "evaluation.gain" goal: MAXIMIZE }
    sampler { grid {} })"));
  EXPECT_THAT(RunExpecting(1, TuneArguments("none", {})).standard_error,
              HasSubstr("evaluation.gain"));
  EXPECT_TRUE(StatusOfStudy("none")["done"].get<bool>());
  EXPECT_FALSE(std::filesystem::exists(Folder("none") + "/decoded"));
}

TEST_F(TuneCommandTest, EnqueuedValuesAreTried) {
  WriteWholeFile(search_, absl::StrCat(R"(
    job: "job.textproto"
    parameter { path: "optimizer.sgd.learning_rate"
                number { low: 1e-3 high: 1 } }
    objective { metric: "final_loss" goal: MINIMIZE }
    budget { trials: 4 })"));
  WorkerGate gate(Folder("gate"));
  KillAfter(2, "queue", TuneArguments("queue", gate.Arguments()));
  EXPECT_THAT(RunExpecting(0, {kTributary, "tune", "enqueue", Folder("queue"),
                               "optimizer.sgd.learning_rate=0.125"})
                  .standard_output,
              HasSubstr("learning_rate=0.125"));
  EXPECT_THAT(RunExpecting(2, {kTributary, "tune", "enqueue", Folder("queue"),
                               "optimizer.sgd.learning_rate=2"})
                  .standard_error,
              HasSubstr("learning_rate"));
  gate.AdmitAll();
  RunExpecting(0, {kTributary, "tune", "--resume", Folder("queue")});
  const Json status = StatusOfStudy("queue");
  ASSERT_EQ(status["trials"].size(), 4u);
  int tried = 0;
  for (const Json& trial : status["trials"]) {
    tried += trial["values"]["optimizer.sgd.learning_rate"] == 0.125 ? 1 : 0;
  }
  EXPECT_EQ(tried, 1);
}

TEST_F(TuneCommandTest, ReplacesNoFilesOfTheUser) {
  // The search file has the name of a file of the study.
  for (const char* flag : {"--quiet", "--overwrite"}) {
    EXPECT_THAT(RunExpecting(
                    1, {kTributary, "tune", search_, "--output", folder_, flag})
                    .standard_error,
                HasSubstr(search_));
  }
  EXPECT_EQ(ReadWholeFile(search_), kTuneSearch);
  const std::string journal = Folder("mine") + "/study.journal";
  RunExpecting(0, {"/bin/mkdir", Folder("mine")});
  WriteWholeFile(journal, "mine");
  EXPECT_THAT(RunExpecting(1, TuneArguments("mine", {})).standard_error,
              HasSubstr(journal));
  EXPECT_EQ(ReadWholeFile(journal), "mine");
}

TEST_F(TuneCommandTest, MistakesHaveOneClearLine) {
  const struct {
    std::vector<std::string> arguments;
    const char* named;
  } cases[] = {{{kTributary, "tune"}, "search file"},
               {{kTributary, "tune", "nowhere.textproto"}, "nowhere.textproto"},
               {{kTributary, "tune", "--resume", "nowhere"}, "nowhere"},
               {{kTributary, "tune", "status", "nowhere"}, "nowhere"},
               {{kTributary, "tune", "best", "nowhere"}, "nowhere"},
               {{kTributary, "tune", "enqueue", "nowhere"}, "PATH=VALUE"},
               {{kTributary, "tune", search_, "--resume", "x", "--output", "y"},
                "--output"}};
  for (const auto& c : cases) {
    const CommandResult result = RunExpecting(2, c.arguments);
    EXPECT_THAT(result.standard_error, HasSubstr(c.named));
    EXPECT_EQ(result.standard_error.find('\n'),
              result.standard_error.size() - 1);
  }
  // The first rung is shorter than the warm-up.
  WriteWholeFile(search_,
                 absl::StrCat(kTuneSearch, "set: \"schedule.warmup_steps=9\""));
  EXPECT_THAT(RunExpecting(2, TuneArguments("short", {})).standard_error,
              HasSubstr("schedule.warmup_steps"));
}

}  // namespace
}  // namespace tributary
