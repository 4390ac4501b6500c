// All-reduce jobs with real processes: the same bits as with the parameter
// server, also when processes fail.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 60;
constexpr char kProgram[] = "tests/faults/tributary_with_failpoints";

class AllReduceJobTest : public testing::Test {
 protected:
  // Returns the options of a job with a checkpoint every ten steps.
  ProcessCluster::Options Options(const std::string& name,
                                  const std::string& model = "gpt") {
    const std::string folder = absl::StrCat(folder_, "/", name);
    std::filesystem::create_directory(folder);
    JobSpec job = TinyJob(model, folder);
    job.set_steps(kSteps);
    job.clear_epochs();
    job.set_clip_norm(1);
    job.mutable_evaluation()->set_every_steps(20);
    job.mutable_checkpoint()->set_every_steps(10);
    job.mutable_output()->set_log_every_steps(1);
    job.mutable_exchange()->mutable_all_reduce()->set_chunk_bytes(4096);
    ProcessCluster::Options options;
    options.program = kProgram;
    options.folder = folder;
    options.job = folder + "/job.textproto";
    WriteWholeFile(options.job, PrintJob(job));
    options.servers = 1;
    options.workers = 3;
    return options;
  }

  // Returns the digest of the parameter server's result, with one worker.
  std::string UndisturbedDigest(const std::string& model) {
    ProcessCluster::Options options = Options("undisturbed", model);
    options.workers = 1;
    options.sets = {"exchange.parameter_server.chunk_bytes=4096"};
    ProcessCluster cluster(std::move(options));
    EXPECT_EQ(cluster.Run(), absl::OkStatus());
    return cluster.weights_sha256();
  }

  void ExpectEqualBits(ProcessCluster::Options options, int restarts,
                       const std::string& model = "gpt") {
    const std::string log = options.folder + "/server-0.log";
    ProcessCluster cluster(std::move(options));
    const absl::Status status = cluster.Run();
    ASSERT_TRUE(status.ok()) << status << "\n" << ReadWholeFile(log);
    EXPECT_EQ(cluster.restarts(), restarts);
    EXPECT_EQ(cluster.weights_sha256(), UndisturbedDigest(model));
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(AllReduceJobTest, GivesTheBitsOfTheParameterServer) {
  ExpectEqualBits(Options("calm"), /*restarts=*/0);
}

// Running statistics are not gradients and are not part of the norm.
TEST_F(AllReduceJobTest, RunningStatisticsAreAddedUpToo) {
  ExpectEqualBits(Options("statistics", "resnet"), /*restarts=*/0, "resnet");
}

TEST_F(AllReduceJobTest, ShardedOptimizersGiveTheSame) {
  ProcessCluster::Options options = Options("sharded");
  options.sets = {"exchange.all_reduce.shard_optimizer=true"};
  options.worker_threads = 2;
  ExpectEqualBits(std::move(options), /*restarts=*/0);
}

// The job has eight micro-batches, which the first eight workers compute.
TEST_F(AllReduceJobTest, WorkersBeyondTheMicroBatchesWait) {
  ProcessCluster::Options options = Options("many");
  options.workers = 9;
  ExpectEqualBits(std::move(options), /*restarts=*/0);
}

// On a slow disk, the first checkpoint may not be complete when the worker
// dies. The job then begins again, which must give the same bits, and the death
// is repeated.
TEST_F(AllReduceJobTest, AWorkersDeathGoesBackToTheCheckpoint) {
  constexpr int kMaxRuns = 10;
  for (const std::string victim : {"worker-0", "worker-2"}) {
    std::string text;
    for (int run = 0; run < kMaxRuns; ++run) {
      ProcessCluster::Options options =
          Options(absl::StrCat("killed_", victim, "_", run));
      const std::string log = options.folder + "/server-0.log";
      options.failpoints[victim] = "W9=50*off->1*crash";
      ExpectEqualBits(std::move(options), /*restarts=*/1);
      text = ReadWholeFile(log);
      EXPECT_THAT(text, HasSubstr("all of its members"));
      if (absl::StrContains(text, "attempt 2: resumes from step ")) break;
    }
    EXPECT_THAT(text, HasSubstr("attempt 2: resumes from step "));
  }
}

// Two replicas of a pipeline of two stages.
TEST_F(AllReduceJobTest, TheDeathOfAnyStageCostsNoBits) {
  for (int victim = 0; victim < 4; ++victim) {
    ProcessCluster::Options options = Options(absl::StrCat("stage_", victim));
    options.workers = 4;
    options.sets = {"parallel.pipeline={ stages: 2 }"};
    options.failpoints[absl::StrCat("worker-", victim)] = "W9=30*off->1*crash";
    ExpectEqualBits(std::move(options), /*restarts=*/1);
  }
}

// The worker is stopped for longer than the lease of 2 s.
TEST_F(AllReduceJobTest, SoDoesOneThatStandsStill) {
  ProcessCluster::Options options = Options("stopped");
  options.failpoints["worker-1"] = "W9=27*off->1*stop(4000)";
  ExpectEqualBits(std::move(options), /*restarts=*/0);
}

TEST_F(AllReduceJobTest, TheServersDeathCostsNoBits) {
  ProcessCluster::Options options = Options("server");
  options.failpoints["server-0"] = "S16=1*off->1*crash";
  ExpectEqualBits(std::move(options), /*restarts=*/1);
}

// Workers exchange gradients without encryption or authentication.
TEST_F(AllReduceJobTest, KeepsGradientsOfASecuredJobOnTheMachine) {
  const std::string token = folder_ + "/token";
  WriteWholeFile(token, std::string(64, 'a'));
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  ProcessCluster::Options options = Options("secured");
  for (const std::string name : {"server-0", "worker-0", "worker-1"}) {
    options.arguments[name] = {"--token-file", token};
  }
  options.workers = 2;
  ExpectEqualBits(options, /*restarts=*/0);

  options.folder = Options("elsewhere").folder;
  for (const std::string name : {"worker-0", "worker-1"}) {
    options.arguments[name].insert(options.arguments[name].end(),
                                   {"--advertise", "192.0.2.1"});
  }
  options.ends_with_job = true;
  ProcessCluster cluster(options);
  // The error of the first process that ends.
  EXPECT_THAT(std::string(cluster.Run().message()),
              HasSubstr("192.0.2.1 without encryption"));
}

TEST_F(AllReduceJobTest, HasOneServer) {
  ProcessCluster::Options options = Options("servers");
  const CommandResult result = RunExpecting(
      2, {kProgram, "train", options.job, "--servers", "2", "--quiet"});
  EXPECT_THAT(result.standard_error,
              HasSubstr("exchange.all_reduce has one server"));
}

}  // namespace
}  // namespace tributary
