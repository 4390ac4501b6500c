// `tributary train` with real processes: training, failures, stopping and
// cleanup.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/network/reserved_port.h"
#include "tests/support/run_until_it_hits.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGptJob[] = R"(
name: "tiny"
model { gpt { layers: 1 heads: 2 width: 16 context: 16 dropout: 0.1 } }
data { text { path: "examples/licenses.textproto" } }
batch { global: 8 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.01 weight_decay: 0.1 } }
clip_norm: 1
exchange { parameter_server { chunk_bytes: 4096 } }
output { log_every_steps: 1 sample_bytes: 40 }
)";

class TrainTest : public testing::Test {
 protected:
  TrainTest() : folder_(MakeTestFolder()), job_(folder_ + "/job.textproto") {
    WriteWholeFile(job_, kGptJob);
  }

  std::vector<std::string> Train(const std::string& output, int steps,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {
        kTributary,          "train",    job_,        "--steps",
        absl::StrCat(steps), "--output", Path(output)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  nlohmann::json Summary(const std::string& output) const {
    return ParseJson(ReadWholeFile(Path(output) + "/summary.json"));
  }

  std::string Digest(const std::string& output) const {
    return Summary(output)["weights_sha256"].get<std::string>();
  }

  // Returns the launcher's child that runs `command` with `option`.
  static pid_t FindChild(pid_t launcher, const std::string& command,
                         const std::string& option) {
    for (const pid_t child : ChildrenOf(launcher)) {
      const std::string line = CommandLineOf(child);
      if (absl::StrContains(line, command) && absl::StrContains(line, option)) {
        return child;
      }
    }
    return -1;
  }

  // Kills the launcher's worker 1, if it still runs, after the first steps.
  // Returns how many processes the launcher had.
  size_t KillWorker1(const BackgroundCommand& launcher,
                     const std::string& output) const {
    EXPECT_TRUE(AwaitLines(Path(output) + "/metrics.jsonl", 5));
    const size_t processes = ChildrenOf(launcher.pid()).size();
    const pid_t worker = FindChild(launcher.pid(), " worker ", "--rank 1");
    if (worker > 0) kill(worker, SIGKILL);
    return processes;
  }

  static void ExpectAllEnd(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      for (int i = 0; i < 2000 && IsAlive(process); ++i) usleep(5000);
      EXPECT_FALSE(IsAlive(process)) << process;
    }
  }

  const std::string folder_;
  const std::string job_;
};

// So many that the job still runs when the test acts.
constexpr int kTrainManySteps = 1000000;

TEST_F(TrainTest, WritesWhatItPromises) {
  const CommandResult result = RunCommand(Train("out", 20));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, HasSubstr("final loss   "));
  EXPECT_THAT(result.standard_output, HasSubstr("evaluation   loss "));
  EXPECT_THAT(result.standard_output,
              HasSubstr(Path("out") + "/final/model.safetensors\n"));
  EXPECT_THAT(result.standard_output, HasSubstr("\nsample\n"));
  EXPECT_THAT(result.standard_error, HasSubstr("step 20/20 100%"));
  for (const char* file :
       {"job.textproto", "final/model.safetensors", "logs/server-0.log",
        "logs/worker-0.log", "logs/worker-1.log"}) {
    EXPECT_NE(ReadWholeFile(Path("out/") + file), "") << file;
  }
  const nlohmann::json summary = Summary("out");
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 20);
  EXPECT_EQ(summary["workers"], 2);
  const std::string metrics = ReadWholeFile(Path("out/metrics.jsonl"));
  EXPECT_GE(std::count(metrics.begin(), metrics.end(), '\n'), 20);
}

TEST_F(TrainTest, SaysWhereTheTimeWent) {
  const CommandResult result = RunCommand(Train("out", 300));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const nlohmann::json summary = Summary("out");
  int workers = 0;
  for (const nlohmann::json& process : summary["processes"]) {
    if (process["role"] != "worker") continue;
    ++workers;
    EXPECT_GT(process["forward_seconds"], 0.0);
    EXPECT_GT(process["backward_seconds"], 0.0);
    EXPECT_GT(process["exchange_seconds"], 0.0);
    EXPECT_GT(process["steps"], 0);
    // Each second is counted only once.
    const double counted = process["forward_seconds"].get<double>() +
                           process["backward_seconds"].get<double>() +
                           process["data_seconds"].get<double>() +
                           process["exchange_seconds"].get<double>() +
                           process["evaluation_seconds"].get<double>();
    EXPECT_LE(counted, 1.05 * summary["seconds"].get<double>());
  }
  EXPECT_EQ(workers, 2);
  EXPECT_GT(summary["waiting_seconds"], 0.0);
}

TEST_F(TrainTest, WeightsDoNotDependOnTheProcesses) {
  ASSERT_EQ(RunCommand(Train("a", 15, {"--workers", "1"})).exit_code, 0);
  ASSERT_EQ(RunCommand(Train("b", 15,
                             {"--workers", "3", "--servers", "2", "--threads",
                              "2", "--quiet"}))
                .exit_code,
            0);
  EXPECT_EQ(Digest("a"), Digest("b"));
}

TEST_F(TrainTest, FindsMicroBatchesOnceAndRecordsThem) {
  const std::vector<std::string> finding = {
      "--set", "batch.micro_batches=-1", "--device", "cpu", "--resume", "auto"};
  const auto run = [&](const std::string& workers, int steps) {
    std::vector<std::string> arguments = Train("found", steps, finding);
    arguments.insert(arguments.end(), {"--workers", workers});
    EXPECT_EQ(RunCommand(arguments).exit_code, 0);
    return ReadWholeFile(Path("found") + "/job.textproto");
  };
  // For this small model, one micro-batch per worker is enough.
  EXPECT_THAT(run("2", 2), HasSubstr("micro_batches: 2"));
  // Resuming with another number of workers keeps the number of micro-batches,
  // and with it the weights.
  EXPECT_THAT(run("4", 3), HasSubstr("micro_batches: 2"));
  EXPECT_EQ(Summary("found")["steps"], 3);
  EXPECT_EQ(
      RunCommand(Train("given", 3,
                       {"--set", "batch.micro_batches=2", "--device", "cpu"}))
          .exit_code,
      0);
  EXPECT_EQ(Digest("found"), Digest("given"));
}

// The job has four micro-batches.
TEST_F(TrainTest, StartsNoMoreWorkersThanCanCompute) {
  const CommandResult result =
      RunExpecting(0, Train("out", 5, {"--workers", "100"}));
  EXPECT_THAT(result.standard_error, HasSubstr("--workers 100: 4 workers "));
  EXPECT_THAT(result.standard_error, HasSubstr("1 server, 4 workers, "));
  EXPECT_EQ(Summary("out")["workers"], 4);
  EXPECT_NE(access(Path("out/logs/worker-4.log").c_str(), F_OK), 0);
  const CommandResult range =
      RunCommand(Train("range", 5, {"--workers", "1:8", "--print-config"}));
  EXPECT_THAT(range.standard_output, HasSubstr("# workers   1:4 (--workers)"));
}

TEST_F(TrainTest, ASpareTakesOverFromALostWorker) {
  ASSERT_EQ(RunCommand(Train("whole", 400)).exit_code, 0);
  RunUntilItHits([this] {
    std::filesystem::remove_all(Path("spared"));
    BackgroundCommand launcher(
        Train("spared", 400,
              {"--workers", "4", "--spares", "1", "--max-restarts", "0"}));
    const size_t processes = KillWorker1(launcher, "spared");
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_THAT(result.standard_error,
                HasSubstr("1 server, 4 workers and 1 spare, "));
    EXPECT_EQ(Digest("spared"), Digest("whole"));
    return processes == 6 && Summary("spared")["workers_lost"] == 1;
  });
}

TEST_F(TrainTest, QuietRunsWriteOnlyResults) {
  const CommandResult result =
      RunExpecting(0, Train("out", 5, {"--quiet", "--workers=1"}));
  EXPECT_EQ(result.standard_error, "");
}

// A dangling link makes it impossible to create the checkpoints folder.
TEST_F(TrainTest, ShowsWhatItsServersWarnOf) {
  // A folder where a file should be.
  std::filesystem::create_directories(Path("out/run-id/full"));
  const CommandResult result =
      RunExpecting(0, Train("out", 20, {"--workers=1", "--quiet"}));
  EXPECT_THAT(
      result.standard_error,
      AllOf(StartsWith("warning: server-0: cannot store the run's ID: "),
            HasSubstr(Path("out/run-id"))));
  EXPECT_EQ(std::count(result.standard_error.begin(),
                       result.standard_error.end(), '\n'),
            1)
      << result.standard_error;
}

TEST_F(TrainTest, SamplesTheModelItHasWritten) {
  ASSERT_EQ(RunCommand(Train("out", 5, {"--workers", "1"})).exit_code, 0);
  const std::vector<std::string> sample = {
      kTributary, "sample", Path("out"), "--prompt", "The ", "--bytes", "30"};
  const CommandResult first = RunExpecting(0, sample);
  EXPECT_EQ(first.standard_output.size(), 34u);
  EXPECT_THAT(first.standard_output, StartsWith("The "));
  EXPECT_EQ(RunCommand(sample).standard_output, first.standard_output);
}

TEST_F(TrainTest, RefusesAFolderWithResults) {
  ASSERT_EQ(RunCommand(Train("out", 3, {"--workers=1"})).exit_code, 0);
  const CommandResult again = RunExpecting(1, Train("out", 3, {"--workers=1"}));
  EXPECT_THAT(again.standard_error, HasSubstr("--overwrite"));
  EXPECT_EQ(
      RunCommand(Train("out", 3, {"--workers=1", "--overwrite"})).exit_code, 0);
}

TEST_F(TrainTest, ARunThatFailedBeforeItsFirstStepDoesNotBlockItsFolder) {
  RunUntilItHits([this] {
    std::filesystem::remove_all(Path("out"));
    const CommandResult failed = RunCommand(
        Train("out", 3, {"--workers=1", "--worker-command", "false"}));
    EXPECT_NE(failed.exit_code, 0);
    // The launcher kills a server that does not end in time.
    if (!std::filesystem::exists(Path("out/summary.json"))) return false;
    EXPECT_EQ(Summary("out")["status"], "stopped");
    return true;
  });
  RunExpecting(0, Train("out", 3, {"--workers=1"}));
  EXPECT_EQ(Summary("out")["status"], "done");
}

TEST_F(TrainTest, GoesOnWithTheSameResultWhenAWorkerIsKilled) {
  constexpr int kSteps = 400;
  ASSERT_EQ(RunCommand(Train("whole", kSteps)).exit_code, 0);
  RunUntilItHits([this] {
    std::filesystem::remove_all(Path("killed"));
    BackgroundCommand launcher(Train("killed", kSteps));
    KillWorker1(launcher, "killed");
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(Digest("killed"), Digest("whole"));
    return Summary("killed")["workers_lost"] == 1 &&
           absl::StrContains(result.standard_error,
                             "warning: worker-1 was killed by SIGKILL");
  });
}

TEST_F(TrainTest, FailsWhenAServerIsKilledAndMayNotBeStartedAgain) {
  std::vector<std::string> arguments = Train("out", kTrainManySteps);
  arguments.insert(arguments.end(), {"--max-restarts", "0"});
  BackgroundCommand launcher(arguments);
  ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 2));
  const std::vector<pid_t> children = ChildrenOf(launcher.pid());
  ASSERT_EQ(kill(FindChild(launcher.pid(), " server ", "--shard 0"), SIGKILL),
            0);
  const CommandResult result = launcher.Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              HasSubstr("error: server-0 was killed by SIGKILL"));
  ExpectAllEnd(children);
}

TEST_F(TrainTest, StopsCleanlyOnCtrlC) {
  BackgroundCommand launcher(Train("out", kTrainManySteps));
  ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 2));
  const std::vector<pid_t> children = ChildrenOf(launcher.pid());
  EXPECT_EQ(children.size(), 3u);
  launcher.Signal(SIGINT);
  const CommandResult result = launcher.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.standard_error, HasSubstr("stopped by SIGINT"));
  ExpectAllEnd(children);
}

TEST_F(TrainTest, LeavesNothingBehindWhenItIsKilled) {
  BackgroundCommand launcher(Train("out", kTrainManySteps));
  ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 2));
  const std::vector<pid_t> children = ChildrenOf(launcher.pid());
  EXPECT_EQ(children.size(), 3u);
  launcher.Signal(SIGKILL);
  EXPECT_EQ(launcher.Wait().exit_code, 128 + SIGKILL);
  ExpectAllEnd(children);
}

TEST_F(TrainTest, TrainsTheTableExample) {
  const CommandResult result =
      RunExpecting(0, {kTributary, "train", "examples/csv.textproto", "--steps",
                       "50", "--output", Path("out")});
  EXPECT_THAT(result.standard_output, HasSubstr("evaluation   loss "));
}

// Server and worker are started by hand, as in two terminals.
TEST_F(TrainTest, ProcessesFindEachOtherWithoutALauncher) {
  const ReservedPort reserved;
  const std::string port = absl::StrCat(reserved.port());
  BackgroundCommand server(
      {kTributary, "server", job_, "--steps", "10", "--output", Path("out")},
      {"MASTER_PORT=" + port});
  BackgroundCommand worker({kTributary, "worker"},
                           {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
                            "RANK=0", "WORLD_SIZE=1"});
  const CommandResult ended = worker.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.standard_error;
  EXPECT_THAT(ended.standard_error, HasSubstr("rank 0/1 from RANK"));
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 0) << served.standard_error;
  EXPECT_EQ(Summary("out")["status"], "done");
  EXPECT_EQ(Summary("out")["steps"], 10);
}

TEST_F(TrainTest, AServerAloneStopsOnASignal) {
  BackgroundCommand server({kTributary, "server", job_, "--set", "steps=10",
                            "--listen", "127.0.0.1:0", "--output",
                            Path("out")});
  ASSERT_TRUE(AwaitLines(Path("out/job.textproto"), 1));
  for (int i = 0;
       i < 2000 && !absl::StrContains(server.StandardError(), "listens on");
       ++i) {
    usleep(5000);
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait().exit_code, 75);
}

// The server must not wait for workers until --no-worker-timeout.
TEST_F(TrainTest, AServerWhoseWorkersHaveLeftStopsOnASignal) {
  const ReservedPort port;
  BackgroundCommand server({kTributary, "server", job_, "--set",
                            absl::StrCat("steps=", kTrainManySteps), "--listen",
                            port.address(), "--output", Path("out")});
  {
    BackgroundCommand worker(
        {kTributary, "worker", "--coordinator", port.address()});
    ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 2));
    worker.Signal(SIGTERM);
    EXPECT_EQ(worker.Wait().exit_code, 75);
  }
  server.Signal(SIGTERM);
  const CommandResult stopped = server.Wait(absl::Seconds(30));
  EXPECT_EQ(stopped.exit_code, 75);
  EXPECT_THAT(stopped.standard_error, HasSubstr("stopped by request"));
  // If the stop interrupts a step, there is no checkpoint, and the message says
  // so.
  EXPECT_TRUE(absl::StrContains(stopped.standard_error,
                                "--resume auto resumes from there") ||
              absl::StrContains(stopped.standard_error, "the last worker left"))
      << stopped.standard_error;
}

}  // namespace
}  // namespace tributary
