// Jobs that are stopped or lose processes, and resume with other numbers of
// servers and workers. The result is that of an uninterrupted run.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kSteps = 1500;
// Steps of a job that must not end before it is stopped, however late that is.
constexpr char kEndless[] = "10000000";

class ResumeTest : public testing::TestWithParam<const char*> {
 protected:
  // `mode` is a field of ConsistencySpec, or "clipping".
  void WriteJob(const std::string& mode) {
    JobSpec job = TinyJob(mode == "clipping" ? "gpt" : "mlp", folder_);
    job.set_steps(kSteps);
    job.mutable_checkpoint()->set_every_steps(25);
    job.mutable_evaluation()->set_every_steps(500);
    job.mutable_output()->set_log_every_steps(1);
    if (job.has_schedule()) {
      // One that does not depend on --steps.
      job.mutable_schedule()->set_decay(ScheduleSpec::EXPONENTIAL);
      job.mutable_schedule()->set_decay_every_steps(100);
      job.mutable_schedule()->set_decay_factor(0.5);
    }
    if (job.optimizer().has_sgd()) {
      job.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
    }
    if (mode != "clipping" && mode != "synchronous") {
      EXPECT_EQ(
          SetField(&job, absl::StrCat("exchange.parameter_server.consistency.",
                                      mode, "={}")),
          absl::OkStatus());
    }
    std::ofstream(job_) << PrintJob(job);
  }

  std::vector<std::string> Train(const std::string& output, int servers,
                                 int workers,
                                 std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {kTributary,
                                          "train",
                                          job_,
                                          "--output",
                                          folder_ + "/" + output,
                                          "--servers",
                                          absl::StrCat(servers),
                                          "--workers",
                                          absl::StrCat(workers),
                                          "--threads",
                                          "1",
                                          "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  nlohmann::json Summary(const std::string& output) {
    std::ifstream file(folder_ + "/" + output + "/summary.json");
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }

  std::string Digest(const std::string& output) {
    return Summary(output).value("weights_sha256", "");
  }

  // Returns the number of steps with which a stopped job completes some more.
  std::string StepsToGoOn(const std::string& output) {
    constexpr int kMore = 60;
    return absl::StrCat(Summary(output).value("steps", 0) + kMore);
  }

  // Sends `signal` to server 1, if it still runs, after the first `lines` of
  // metrics.jsonl.
  void SignalServer1(const BackgroundCommand& launcher, int lines, int signal) {
    EXPECT_TRUE(AwaitLines(folder_ + "/run/metrics.jsonl", lines));
    for (const pid_t child : ChildrenOf(launcher.pid())) {
      if (CommandLineOf(child).find("--shard 1") != std::string::npos) {
        kill(child, signal);
      }
    }
  }

  // Returns the steps in metrics.jsonl, without evaluations.
  std::vector<int64_t> Steps(const std::string& output) {
    std::ifstream file(folder_ + "/" + output + "/metrics.jsonl");
    std::vector<int64_t> steps;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("evaluation_loss")) steps.push_back(json["step"]);
    }
    return steps;
  }

  // Maps the path of each file to its contents.
  static std::map<std::string, std::string> FilesIn(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        files[entry.path()] = ReadWholeFile(entry.path());
      }
    }
    return files;
  }

  // Maps the path of each file and folder to the time of its last change.
  static std::map<std::string, std::filesystem::file_time_type> TimesIn(
      const std::string& folder) {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder)) {
      times[entry.path()] = entry.last_write_time();
    }
    return times;
  }

  // Returns the folder of the last checkpoint but one. Its step depends on the
  // machine's load.
  std::string CheckpointBeforeTheLast(const std::string& output) {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(
             folder_ + "/" + output + "/checkpoints")) {
      const std::string path = entry.path();
      if (path.find("step-00001500") == std::string::npos &&
          path.find("step-") != std::string::npos) {
        newest = std::max(newest, path);
      }
    }
    return newest;
  }

  const std::string folder_ = MakeTestFolder();
  const std::string job_ = folder_ + "/job.textproto";
};

TEST_F(ResumeTest, AnyNumbersOfServersAndWorkersGoOnToTheSameBits) {
  WriteJob("clipping");
  const std::vector<std::pair<int, int>> stages = {
      {1, 1}, {2, 3}, {3, 8}, {2, 1}};
  for (const auto& [servers, workers] : stages) {
    const int lines = static_cast<int>(Steps("stopped").size());
    BackgroundCommand launcher(
        Train("stopped", servers, workers,
              {"--resume", "auto", "--steps", kEndless}));
    ASSERT_TRUE(AwaitLines(folder_ + "/stopped/metrics.jsonl", lines + 40));
    launcher.Signal(SIGTERM);
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 75) << result.standard_error;
    EXPECT_THAT(result.standard_error, HasSubstr("--resume"));
    EXPECT_EQ(Summary("stopped").value("status", ""), "stopped");
  }
  const std::string steps = StepsToGoOn("stopped");
  // A run's folder contains its job.
  RunExpecting(
      0, {kTributary, "train", "--resume", folder_ + "/stopped", "--servers",
          "1", "--workers", "2", "--quiet", "--steps", steps});
  ASSERT_EQ(RunCommand(Train("calm", 1, 2, {"--steps", steps})).exit_code, 0);
  EXPECT_EQ(Digest("stopped"), Digest("calm"));
  EXPECT_EQ(Summary("stopped")["evaluation"], Summary("calm")["evaluation"]);
  // metrics.jsonl has every step once.
  EXPECT_EQ(Steps("stopped"), Steps("calm"));
}

// Workers send their state to the server, which saves it before it stops.
TEST_F(ResumeTest, SoDoesAnAllReduce) {
  WriteJob("clipping");
  for (const char* const sharded : {"false", "true"}) {
    const int lines = static_cast<int>(Steps("stopped").size());
    BackgroundCommand launcher(
        Train("stopped", 1, 2,
              {"--resume", "auto", "--steps", kEndless, "--set",
               absl::StrCat("exchange.all_reduce={shard_optimizer: ", sharded,
                            " chunk_bytes: 4096}")}));
    ASSERT_TRUE(AwaitLines(folder_ + "/stopped/metrics.jsonl", lines + 40));
    launcher.Signal(SIGTERM);
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 75) << result.standard_error;
  }
  // A checkpoint does not depend on the exchange.
  const std::string steps = StepsToGoOn("stopped");
  RunExpecting(0,
               Train("stopped", 2, 3, {"--resume", "auto", "--steps", steps}));
  ASSERT_EQ(RunCommand(Train("calm", 1, 2, {"--steps", steps})).exit_code, 0);
  EXPECT_EQ(Digest("stopped"), Digest("calm"));
  EXPECT_EQ(Steps("stopped"), Steps("calm"));
}

TEST_F(ResumeTest, GoesOnInAnotherFolderFromAnyCheckpoint) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("calm", 2, 2)).exit_code, 0);
  const std::string older = CheckpointBeforeTheLast("calm");
  ASSERT_FALSE(older.empty());
  RunExpecting(0, Train("other", 1, 3, {"--resume", older}));
  EXPECT_EQ(Digest("other"), Digest("calm"));
}

TEST_F(ResumeTest, TakesTheCheckpointBeforeADamagedOne) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 2, 2)).exit_code, 0);
  const std::string digest = Digest("run");
  const std::string damaged =
      folder_ +
      "/run/checkpoints/step-00001500/optimizer-00002-of-00002.safetensors";
  std::string bytes = ReadWholeFile(damaged);
  bytes[bytes.size() - 9] ^= 1;
  WriteWholeFile(damaged, bytes);
  const std::string before = CheckpointBeforeTheLast("run");
  ASSERT_FALSE(before.empty());
  const std::string told = "optimizer-00002-of-00002.safetensors: bytes 0 to ";

  std::filesystem::remove(folder_ + "/run/final/manifest.json");
  // All steps are done, so only the results must be written.
  RunExpecting(0, {kTributary, "train", "--resume", folder_ + "/run",
                   "--servers", "2", "--quiet"});
  EXPECT_EQ(Digest("run"), digest);
  EXPECT_THAT(ReadWholeFile(folder_ + "/run/logs/server-0.log"),
              AllOf(HasSubstr(told), HasSubstr("resumes from step "),
                    HasSubstr(before + "\n")));

  // Now the server that needs the damaged file detects it.
  WriteWholeFile(damaged, bytes);
  RunExpecting(0, {kTributary, "train", "--resume", folder_ + "/run",
                   "--servers", "2", "--quiet", "--steps", "1600"});
  EXPECT_THAT(ReadWholeFile(folder_ + "/run/logs/server-0.log"),
              AllOf(HasSubstr(told), HasSubstr("checkpoint before it")));
  ASSERT_EQ(RunCommand(Train("calm", 1, 1, {"--steps", "1600"})).exit_code, 0);
  EXPECT_EQ(Digest("run"), Digest("calm"));
}

// Without any checkpoint, as on a full disk, only the final model shows that
// the job is finished.
TEST_F(ResumeTest, KnowsAFinishedJobWithoutItsCheckpoints) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 2, 2)).exit_code, 0);
  const nlohmann::json summary = Summary("run");
  const std::string run = folder_ + "/run";
  std::filesystem::remove_all(run + "/checkpoints");
  std::filesystem::remove(run + "/summary.json");
  std::filesystem::remove(run + "/logs/server-0.log");
  // A new run does not replace this one unless it is asked to.
  const CommandResult fresh = RunExpecting(1, Train("run", 2, 2));
  EXPECT_THAT(fresh.standard_error, HasSubstr("--overwrite"));

  RunExpecting(
      0, {kTributary, "train", "--resume", run, "--servers", "2", "--quiet"});
  EXPECT_THAT(ReadWholeFile(run + "/logs/server-0.log"),
              HasSubstr("resumes from step 1500, " + run + "/final\n"));
  EXPECT_EQ(Summary("run")["weights_sha256"], summary["weights_sha256"]);
  EXPECT_EQ(Summary("run")["evaluation"], summary["evaluation"]);

  // A damaged final model does not count as finished.
  const std::string model = run + "/final/model.safetensors";
  std::string bytes = ReadWholeFile(model);
  bytes[bytes.size() - 9] ^= 1;
  WriteWholeFile(model, bytes);
  const CommandResult refused = RunExpecting(
      2, {kTributary, "train", "--resume", run, "--servers", "2", "--quiet"});
  EXPECT_THAT(refused.standard_error,
              HasSubstr("no checkpoint that can be used in " + run));
  RunExpecting(0, Train("run", 2, 2, {"--resume", "auto"}));
  EXPECT_THAT(ReadWholeFile(run + "/logs/server-0.log"),
              HasSubstr("final/model.safetensors: bytes 0 to "));
  EXPECT_EQ(Summary("run")["weights_sha256"], summary["weights_sha256"]);
  EXPECT_TRUE(std::filesystem::exists(run + "/checkpoints/step-00001500"));
}

// As after a kill between the writes of the final model and of the summary of a
// run that was continued.
TEST_F(ResumeTest, ASummaryOfFewerStepsIsNotThatOfTheFinalModel) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 1, 1, {"--set", "steps=700"})).exit_code,
            0);
  const std::string summary = folder_ + "/run/summary.json";
  const std::string earlier = ReadWholeFile(summary);
  RunExpecting(0, Train("run", 1, 1, {"--resume", "auto"}));
  const nlohmann::json wanted = Summary("run");
  WriteWholeFile(summary, earlier);
  RunExpecting(0, Train("run", 1, 1, {"--resume", "auto"}));
  EXPECT_EQ(Summary("run")["steps"], 1500);
  EXPECT_EQ(Summary("run")["weights_sha256"], wanted["weights_sha256"]);
  EXPECT_EQ(Summary("run")["final_loss"], wanted["final_loss"]);
}

// A scheduler runs the same command again, and a cluster starts the same
// processes again.
TEST_F(ResumeTest, AFinishedRunIsAlreadyDoneAndChangesNothing) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 1, 1)).exit_code, 0);
  const std::string run = folder_ + "/run";
  // `train` shows the progress; its server does not.
  EXPECT_THAT(ReadWholeFile(run + "/logs/server-0.log"),
              testing::Not(HasSubstr("step 1500/1500")));
  const auto before = FilesIn(run);
  const auto times = TimesIn(run);
  for (const auto& command :
       {Train("run", 2, 2, {"--resume", "auto"}),
        std::vector<std::string>{kTributary, "train", "--resume", run}}) {
    const CommandResult again = RunExpecting(0, command);
    EXPECT_THAT(again.standard_output, HasSubstr("already done"));
  }
  const std::vector<std::string> server = {
      kTributary, "server",   job_,         "--output", run,
      "--resume", "auto",     "--workers",  "2",        "--servers",
      "2",        "--listen", "127.0.0.1:0"};
  BackgroundCommand coordinator(server);
  const std::string kListens = "coordinator listens on ";
  const std::string line = coordinator.AwaitStandardError(kListens);
  const std::string address =
      line.substr(line.find(kListens) + kListens.size());
  BackgroundCommand second({kTributary, "server", "--servers", "2", "--shard",
                            "1", "--coordinator", address});
  BackgroundCommand first_worker(
      {kTributary, "worker", "--coordinator", address});
  BackgroundCommand second_worker(
      {kTributary, "worker", "--coordinator", address});
  for (BackgroundCommand* process :
       {&first_worker, &second_worker, &second, &coordinator}) {
    const CommandResult ended = process->Wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.standard_error;
  }
  EXPECT_THAT(coordinator.StandardError(), HasSubstr("already done"));
  EXPECT_EQ(FilesIn(run), before);
  EXPECT_EQ(TimesIn(run), times);

  // There is more to do.
  RunExpecting(
      0, {kTributary, "train", "--resume", run, "--steps", "1510", "--quiet"});
  EXPECT_EQ(Summary("run")["steps"], 1510);
}

TEST_F(ResumeTest, ARefusedJobChangesNothing) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 1, 1)).exit_code, 0);
  const std::string run = folder_ + "/run";
  const std::map<std::string, std::string> before = FilesIn(run);
  ASSERT_EQ(before.count(run + "/job.textproto"), 1u);
  const CommandResult refused = RunExpecting(
      2, Train("run", 1, 1,
               {"--resume", "auto", "--set", "model.mlp.hidden=[7]", "--set",
                "optimizer.sgd.learning_rate=0.5"}));
  EXPECT_THAT(
      refused.standard_error,
      AllOf(HasSubstr("error: the job differs from that of " + run +
                      "/checkpoints/step-00001500: model.mlp.hidden was [48, "
                      "32], is [7]; optimizer.sgd.learning_rate was 0.1, is "
                      "0.5; "),
            HasSubstr("--allow-job-changes")));
  EXPECT_EQ(FilesIn(run), before);
  // A server started by hand refuses it as well.
  const CommandResult server =
      RunExpecting(2, {kTributary, "server", job_, "--listen", "127.0.0.1:0",
                       "--output", run, "--resume", "auto", "--set", "seed=2"});
  EXPECT_THAT(server.standard_error, AllOf(HasSubstr("seed was 1, is 2; "),
                                           HasSubstr("--allow-job-changes")));
  EXPECT_EQ(FilesIn(run), before);
  const CommandResult shorter = RunExpecting(
      2, Train("run", 1, 1, {"--resume", "auto", "--steps", "100"}));
  EXPECT_THAT(shorter.standard_error, HasSubstr("ends at step 100"));
  EXPECT_EQ(FilesIn(run), before);

  // Only a worker can detect that the model differs.
  const CommandResult model =
      RunExpecting(2, Train("run", 1, 1,
                            {"--resume", "auto", "--set",
                             "model.mlp.hidden=[7]", "--allow-job-changes"}));
  EXPECT_THAT(model.standard_error, HasSubstr("of another model"));
  const std::map<std::string, std::string> after = FilesIn(run);
  for (const auto& [path, contents] : before) {
    ASSERT_EQ(after.count(path), 1u) << path;
    // Log files grow, and the attempt number increases.
    const bool grows = path.find("/logs/") != std::string::npos ||
                       path == run + "/events.jsonl" ||
                       path == run + "/attempt";
    if (grows) continue;
    EXPECT_EQ(after.at(path), contents) << path;
  }
  EXPECT_THAT(after.at(run + "/logs/server-0.log"),
              StartsWith(before.at(run + "/logs/server-0.log")));
  // The action that the messages advise works.
  const CommandResult longer =
      RunExpecting(0, {kTributary, "train", "--resume", run, "--quiet",
                       "--steps", "1600", "--workers", "1"});
  EXPECT_EQ(longer.standard_error, "");
  EXPECT_EQ(Summary("run").value("steps", 0), 1600);
}

TEST_F(ResumeTest, GoesOnWithAChangedJobWhereThatIsAllowed) {
  WriteJob("synchronous");
  ASSERT_EQ(RunCommand(Train("run", 1, 1)).exit_code, 0);
  const CommandResult result = RunExpecting(
      0, Train("run", 1, 1,
               {"--resume", "auto", "--steps", "1600", "--set",
                "optimizer.sgd.learning_rate=0.01", "--allow-job-changes"}));
  EXPECT_EQ(
      result.standard_error,
      absl::StrCat("warning: server-0: the job differs from that of ", folder_,
                   "/run/checkpoints/step-00001500: "
                   "optimizer.sgd.learning_rate was 0.1, is 0.01; the "
                   "result will match neither job\n"));
  EXPECT_EQ(Summary("run").value("steps", 0), 1600);
  EXPECT_THAT(ReadWholeFile(folder_ + "/run/job.textproto"),
              HasSubstr("learning_rate: 0.01"));
}

// No flag is needed, but the learning rate of the first steps was another one.
TEST_F(ResumeTest, WarnsWhereALongerRunHasAnotherSchedule) {
  WriteJob("synchronous");
  const auto train = [this](const std::string& steps) {
    return RunCommand(Train("run", 1, 1,
                            {"--resume", "auto", "--steps", steps, "--set",
                             "schedule.decay=LINEAR"}));
  };
  const CommandResult first = train("30");
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_EQ(first.standard_error, "");
  const CommandResult longer = train("40");
  EXPECT_EQ(longer.exit_code, 0) << longer.standard_error;
  EXPECT_THAT(
      longer.standard_error,
      AllOf(StartsWith("warning: server-0: the job differs from that of " +
                       folder_ + "/run/checkpoints/step-00000030: "),
            HasSubstr("learning rate schedule")));
  EXPECT_EQ(Summary("run").value("steps", 0), 40);
}

// It leaves a checkpoint behind first, so the job does not begin again.
TEST_F(ResumeTest, AServerThatIsAskedToStopCostsFewSteps) {
  WriteJob("synchronous");
  const std::vector<std::string> rare = {"--set",
                                         "checkpoint.every_steps=1400"};
  ASSERT_EQ(RunCommand(Train("calm", 1, 1, rare)).exit_code, 0);
  RunUntilItHits([&] {
    std::filesystem::remove_all(folder_ + "/run");
    BackgroundCommand launcher(Train("run", 2, 2, rare));
    SignalServer1(launcher, /*lines=*/40, SIGTERM);
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return absl::StrContains(result.standard_error,
                             "server-1 exited with code 75; restarting it");
  });
  EXPECT_EQ(Digest("run"), Digest("calm"));
  EXPECT_EQ(Steps("run"), Steps("calm"));
  const std::string log = ReadWholeFile(folder_ + "/run/logs/server-0.log");
  EXPECT_THAT(log, HasSubstr("a request to stop"));
  EXPECT_THAT(log, HasSubstr("attempt 2: resumes from step"));
}

// In these modes, too, the job completes all its steps after the loss of a
// server.
TEST_P(ResumeTest, SurvivesTheLossOfAServer) {
  WriteJob(GetParam());
  RunUntilItHits([&] {
    std::filesystem::remove_all(folder_ + "/run");
    BackgroundCommand launcher(Train("run", 2, 2));
    SignalServer1(launcher, /*lines=*/4, SIGKILL);
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(Summary("run").value("steps", 0), kSteps);
    return Summary("run").value("attempt", 0) >= 2;
  });
  if (std::string(GetParam()) == "local_steps") {
    ASSERT_EQ(RunCommand(Train("calm", 1, 1)).exit_code, 0);
    EXPECT_EQ(Digest("run"), Digest("calm"));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ResumeTest,
                         testing::Values("stale_synchronous", "asynchronous",
                                         "local_steps"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace tributary
