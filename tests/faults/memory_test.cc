// A worker that runs out of memory computes fewer micro-batches at a time.
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = "tests/faults/tributary_with_failpoints";

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() {
    JobSpec job = TinyJob("gpt", folder_);
    job.set_steps(30);
    std::ofstream(folder_ + "/job.textproto") << PrintJob(job);
  }

  // Returns the final model's digest.
  std::string Train(const std::string& output, const std::string& failpoints) {
    ProcessCluster::Options options;
    options.program = kProgram;
    options.job = folder_ + "/job.textproto";
    options.folder = folder_ + "/" + output;
    std::filesystem::create_directory(options.folder);
    options.servers = options.workers = 1;
    options.worker_threads = 2;
    options.failpoints["worker-0"] = failpoints;
    ProcessCluster cluster(options);
    EXPECT_EQ(cluster.Run(), absl::OkStatus());
    restarts_ = cluster.restarts();
    return cluster.weights_sha256();
  }

  std::string WorkerLog(const std::string& output) {
    return ReadWholeFile(folder_ + "/" + output + "/worker-0.log");
  }

  int restarts_ = 0;

  const std::string folder_ = MakeTestFolder();
};

TEST_F(MemoryTest, FewerMicroBatchesAtATimeGiveTheSameResult) {
  const std::string digest = Train("calm", "");
  ASSERT_EQ(digest.size(), 64u);
  // During training, and during an evaluation.
  for (const std::string point : {"W6=33*off->1*memory", "W12=1*memory"}) {
    const std::string output = point.substr(0, point.find('='));
    EXPECT_EQ(Train(output, point), digest);
    EXPECT_EQ(restarts_, 0);
    EXPECT_THAT(WorkerLog(output), HasSubstr("1 micro-batch at a time"));
  }
}

TEST_F(MemoryTest, NoMemoryForASingleMicroBatchEndsWithAdvice) {
  Train("none", "W6=memory");
  EXPECT_GE(restarts_, 1);
  EXPECT_THAT(WorkerLog("none"), HasSubstr("a single micro-batch"));
  EXPECT_THAT(WorkerLog("none"), HasSubstr("increase batch.micro_batches"));
}

// The job needs more than a terabyte.
TEST_F(MemoryTest, AJobThatCannotFitSaysSoBeforeItStarts) {
  const CommandResult result =
      RunExpecting(1, {kProgram, "train", folder_ + "/job.textproto",
                       "--output", folder_ + "/huge", "--workers", "1",
                       "--quiet", "--set", "evaluation.batch=16777216"});
  EXPECT_THAT(result.standard_error, HasSubstr("memory for a micro-batch"));
}

}  // namespace
}  // namespace tributary
