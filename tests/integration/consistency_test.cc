// Consistency modes in which workers run ahead of each other, on whole
// clusters: every step is applied once, the job ends, and the model learns.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

void Set(JobSpec* job, const std::string& field) {
  ASSERT_EQ(SetField(job, field), absl::OkStatus());
}

std::string ConsistencyDirectory(const std::string& name) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/consistency-", name);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
  return path;
}

struct RunResult {
  nlohmann::json summary;
  std::vector<nlohmann::json> metrics;
};

RunResult AwaitTrue(LocalCluster* cluster, const std::string& directory) {
  EXPECT_EQ(cluster->Await(), absl::OkStatus());
  RunResult run;
  run.summary = cluster->Summary();
  std::ifstream file(directory + "/metrics.jsonl");
  std::string line;
  while (std::getline(file, line)) {
    run.metrics.push_back(ParseJson(line));
  }
  return run;
}

RunResult Start(const JobSpec& job, const std::string& name, int workers,
                int servers, int threads = 1) {
  const std::string directory = ConsistencyDirectory(name);
  LocalCluster cluster(job, servers, workers, directory);
  for (int i = 0; i < workers; ++i) cluster.StartWorker(threads);
  return AwaitTrue(&cluster, directory);
}

struct Mode {
  const char* name;
  const char* consistency;
};

class BoundedStalenessTest : public ::testing::TestWithParam<Mode> {
 protected:
  static JobSpec Job(const std::string& family, int64_t steps) {
    JobSpec job = TinyJob(family, ConsistencyDirectory(absl::StrCat(
                                      GetParam().name, "-", family, "-data")));
    job.set_steps(steps);
    Set(&job, absl::StrCat("exchange.parameter_server.consistency={",
                           GetParam().consistency, "}"));
    return job;
  }

  // Expects every evaluation at its step.
  static void ExpectComplete(const RunResult& run, int64_t steps,
                             int64_t every) {
    EXPECT_EQ(run.summary.value("steps", int64_t{0}), steps);
    EXPECT_EQ(run.summary.value("weights_sha256", "").size(), 64u);
    EXPECT_EQ(run.summary["evaluation"].value("step", int64_t{0}), steps);
    int64_t expected = every;
    for (const nlohmann::json& line : run.metrics) {
      if (!line.contains("evaluation_loss")) continue;
      EXPECT_EQ(line.value("step", int64_t{0}), std::min(expected, steps));
      expected += every;
    }
    EXPECT_GE(expected, steps);
  }
};

TEST_P(BoundedStalenessTest, AppliesEveryStepAndLearnsOnAnyMachines) {
  for (const auto& [family, rate] :
       std::vector<std::pair<const char*, const char*>>{
           {"mlp", "sgd.learning_rate=0.02"},
           {"gpt", "adamw.learning_rate=0.001"}}) {
    JobSpec job = Job(family, 300);
    // Stale gradients require smaller steps.
    Set(&job, absl::StrCat("optimizer.", rate));
    JobSpec synchronous = job;
    synchronous.mutable_exchange()
        ->mutable_parameter_server()
        ->clear_consistency();
    const double expected =
        Start(synchronous, "synchronous", 1, 1).summary["evaluation"]["loss"];
    for (const auto& [workers, servers, threads] :
         std::vector<std::tuple<int, int, int>>{
             {1, 1, 1}, {2, 1, 1}, {3, 2, 2}}) {
      SCOPED_TRACE(absl::StrCat(family, ": ", workers, " workers, ", servers,
                                " servers, ", threads, " threads"));
      const RunResult run =
          Start(job, absl::StrCat(GetParam().name, workers, "x", servers),
                workers, servers, threads);
      ExpectComplete(run, 300, 12);
      // Both have learned the small data set about as well as possible.
      EXPECT_LT(run.summary["evaluation"]["loss"], 1.4 * expected + 0.2);
    }
  }
}

TEST_P(BoundedStalenessTest, GoesOnWhoeverComesAndGoes) {
  for (const char* transport : {"MEMORY", "WIRE"}) {
    JobSpec job = Job("gpt", 400);
    Set(&job, absl::StrCat("exchange.transport=", transport));
    const std::string directory = ConsistencyDirectory(
        absl::StrCat(GetParam().name, "-churn-", transport));
    LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/3, directory);
    for (int i = 0; i < 3; ++i) cluster.StartWorker();
    for (int worker = 0; worker < 6; ++worker) {
      cluster.AwaitStep(1 + 20 * worker);
      cluster.KillWorker(worker);
      cluster.StartWorker();
    }
    const RunResult run = AwaitTrue(&cluster, directory);
    ExpectComplete(run, 400, 12);
    EXPECT_GE(run.summary.value("workers_lost", 0), 1);
  }
}

const auto kModeName = [](const auto& info) {
  return std::string(info.param.name);
};
INSTANTIATE_TEST_SUITE_P(
    Modes, BoundedStalenessTest,
    ::testing::Values(Mode{"stale1", "stale_synchronous { staleness: 1 }"},
                      Mode{"asynchronous", "asynchronous {}"}),
    kModeName);
INSTANTIATE_TEST_SUITE_P(
    SlowModes, BoundedStalenessTest,
    ::testing::Values(
        Mode{"stale4", "stale_synchronous { staleness: 4 }"},
        // Rejects gradients computed before another step's update.
        Mode{"impatient",
             "asynchronous { max_staleness: 0 learning_rate_by_staleness: true "
             "}"}),
    kModeName);

TEST(StaleSynchronousTest, WithoutStalenessIsSynchronousBitByBit) {
  JobSpec job = TinyJob("gpt", ConsistencyDirectory("zero-data"));
  const RunResult synchronous = Start(job, "zero-synchronous", 2, 1);
  Set(&job,
      "exchange.parameter_server.consistency.stale_synchronous.staleness=0");
  const RunResult stale = Start(job, "zero", 3, 2);
  EXPECT_EQ(stale.summary["weights_sha256"],
            synchronous.summary["weights_sha256"]);
}

// With one worker, no other worker's update lies between two of its steps. The
// worker uses a chunk for the next step once it has the outcome of its own last
// gradient (see AsynchronousWork). On the stream, this outcome follows the new
// weights. The worker therefore computes step t from version t of every chunk,
// with the samples and learning rate of step t. It reduces the whole tree
// itself, in the tree's order, and takes the norm of the same sums, chunk by
// chunk, as the coordinator does.
TEST(AsynchronousTest, WithOneWorkerIsSynchronousBitByBit) {
  for (const char* family : {"mlp", "cnn", "resnet", "gpt"}) {
    for (const char* field : {
             "exchange.wire_dtype=FLOAT32",
             "exchange.wire_dtype=BFLOAT16",
             // The batch is one micro-batch, which the server rounds.
             "batch.micro_batches=1",
         }) {
      JobSpec job =
          TinyJob(family, ConsistencyDirectory(absl::StrCat("one-", family)));
      Set(&job, "exchange.wire_dtype=BFLOAT16");
      Set(&job, field);
      const int workers = job.batch().micro_batches() > 1 ? 2 : 1;
      const RunResult synchronous = Start(job, "one-synchronous", workers, 1);
      Set(&job, "exchange.parameter_server.consistency.asynchronous={}");
      for (const auto& [transport, servers, threads] :
           std::vector<std::tuple<const char*, int, int>>{{"MEMORY", 1, 1},
                                                          {"WIRE", 2, 2}}) {
        SCOPED_TRACE(absl::StrCat(family, ", ", field, ", ", transport));
        Set(&job, absl::StrCat("exchange.transport=", transport));
        const RunResult one =
            Start(job, "one", /*workers=*/1, servers, threads);
        EXPECT_EQ(one.summary["steps"], 30);
        EXPECT_EQ(one.summary["weights_sha256"],
                  synchronous.summary["weights_sha256"]);
      }
    }
  }
}

}  // namespace
}  // namespace tributary
