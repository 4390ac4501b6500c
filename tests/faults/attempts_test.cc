// Servers that cannot be restored in the usual way.
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 60;

class AttemptsTest : public testing::Test {
 protected:
  // Returns the options of a job with a checkpoint every ten steps.
  ProcessCluster::Options Options(const std::string& name, bool replicas) {
    const std::string folder = absl::StrCat(folder_, "/", name);
    std::filesystem::create_directory(folder);
    JobSpec job = TinyJob("mlp", folder);
    job.set_steps(kSteps);
    job.clear_epochs();
    job.mutable_checkpoint()->set_every_steps(10);
    job.mutable_recovery()->set_journal(replicas);
    job.mutable_output()->set_log_every_steps(1);
    job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    ProcessCluster::Options options;
    options.program = "tests/faults/tributary_with_failpoints";
    options.folder = folder;
    options.job = folder + "/job.textproto";
    WriteWholeFile(options.job, PrintJob(job));
    return options;
  }

  std::string UndisturbedDigest() {
    ProcessCluster cluster(Options("undisturbed", /*replicas=*/false));
    EXPECT_EQ(cluster.Run(), absl::OkStatus());
    return cluster.weights_sha256();
  }

  std::string CoordinatorLog(const std::string& name) {
    return ReadWholeFile(absl::StrCat(folder_, "/", name, "/server-0.log"));
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(AttemptsTest, TakesTheCheckpointWhenMemoryFailsAgainAndAgain) {
  const std::string digest = UndisturbedDigest();
  constexpr char kResumed[] = "resumes from step [0-9]+, /.*/checkpoints/step-";
  // A slow disk may not have completed a checkpoint when the server crashes.
  // The job then begins again, with the same result.
  constexpr int kMaxRuns = 10;
  std::string log;
  for (int run = 0;
       run < kMaxRuns && !testing::Matches(ContainsRegex(kResumed))(log);
       ++run) {
    const std::string name = absl::StrCat("memory", run);
    ProcessCluster::Options options = Options(name, /*replicas=*/true);
    options.failpoints["server-1"] = "S10=35*off->1*crash";
    options.failpoints_again["server-1"] = "J3=error";
    ProcessCluster cluster(std::move(options));
    ASSERT_EQ(cluster.Run(), absl::OkStatus());
    EXPECT_EQ(cluster.restarts(), 1);
    EXPECT_EQ(cluster.actions(), 1 + 3);
    // The steps since the checkpoint are computed again.
    EXPECT_GT(cluster.StepsAgain(), 0);
    EXPECT_TRUE(cluster.CheckLedger(kSteps).ok());
    EXPECT_EQ(cluster.weights_sha256(), digest);
    log = CoordinatorLog(name);
  }
  EXPECT_THAT(log, ContainsRegex(kResumed));
}

// The job ends in the middle of an epoch of seven steps, and processes are lost
// in the middle of others. After each loss of worker 1, worker 0 computes all
// micro-batches until worker 1 has joined again.
TEST_F(AttemptsTest, EachEpochHasEachSampleOnceThroughLosses) {
  constexpr int64_t kManySteps = 6000;
  // On a busy machine, the job may end before the second loss.
  constexpr int kMaxRuns = 10;
  int actions = 0;
  for (int run = 0; run < kMaxRuns && actions < 3; ++run) {
    ProcessCluster::Options options =
        Options(absl::StrCat("losses", run), /*replicas=*/false);
    options.sets = {absl::StrCat("steps=", kManySteps),
                    "checkpoint.every_steps=100"};
    options.failpoints["worker-1"] = "W9=10*off->1*crash";
    options.failpoints_again["worker-1"] = "W9=10*off->1*crash";
    options.failpoints["server-1"] = "S8=2000*off->1*crash";
    ProcessCluster cluster(std::move(options));
    absl::Status status = cluster.Run();
    ASSERT_TRUE(status.ok()) << status;
    status = cluster.CheckLedger(kManySteps);
    EXPECT_TRUE(status.ok()) << status;
    status = cluster.CheckSamples({kManySteps, kTinyJobSamples,
                                   /*global_batch=*/16, /*micro_batches=*/8});
    EXPECT_TRUE(status.ok()) << status;
    actions = cluster.actions();
  }
  EXPECT_EQ(actions, 3);
}

// The average is restored from a checkpoint, and from a replica in memory.
TEST_F(AttemptsTest, TheAverageOfTheWeightsSurvivesLosses) {
  const auto run = [this](const std::string& name, bool replicas, bool loses) {
    ProcessCluster::Options options = Options(name, replicas);
    options.sets = {"optimizer.average_decay=0.9"};
    if (loses) options.failpoints["server-1"] = "S10=35*off->1*crash";
    ProcessCluster cluster(std::move(options));
    EXPECT_EQ(cluster.Run(), absl::OkStatus());
    EXPECT_EQ(cluster.actions(), loses ? 1 : 0);
    return ReadWholeFile(
        absl::StrCat(folder_, "/", name, "/run/final/average.safetensors"));
  };
  const std::string average = run("calm", /*replicas=*/false, /*loses=*/false);
  EXPECT_FALSE(average.empty());
  EXPECT_EQ(run("restored", /*replicas=*/false, /*loses=*/true), average);
  EXPECT_EQ(run("replica", /*replicas=*/true, /*loses=*/true), average);
}

TEST_F(AttemptsTest, FailsWhenNothingComesOfThemForTooLong) {
  ProcessCluster::Options options = Options("stuck", /*replicas=*/false);
  options.arguments["server-0"] = {"--no-server-timeout", "8"};
  // Enough steps for two checkpoints, even on a slow disk.
  options.sets = {"steps=2000"};
  // The server crashes whenever it is restored.
  options.environment["server-1"] = {
      "TRIBUTARY_FAILPOINTS=S13=5*off->crash;"
      "S17=crash"};
  options.ends_with_job = true;
  ProcessCluster cluster(std::move(options));
  const absl::Status status = cluster.Run();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("8s; the last one ended with: lost server 1"));
  EXPECT_EQ(cluster.weights_sha256(), "");
}

}  // namespace
}  // namespace tributary
