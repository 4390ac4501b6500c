// Jobs whose model is divided into stages have the bits of the undivided job,
// also when the worker of a stage is lost.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

class PipelineTest : public testing::TestWithParam<const char*> {
 protected:
  struct Result {
    std::string digest;
    double loss = 0;
    double evaluation_loss = 0;

    bool operator==(const Result& other) const {
      return digest == other.digest && loss == other.loss &&
             evaluation_loss == other.evaluation_loss;
    }
  };

  PipelineTest() : job_(TinyJob(GetParam(), Directory("data"))) {}

  static std::string Directory(const std::string& name) {
    const std::string path =
        absl::StrCat(testing::TempDir(), "/pipeline-", GetParam(), "-", name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  void Set(const std::string& field) {
    const absl::Status status = SetField(&job_, field);
    ASSERT_TRUE(status.ok()) << status;
  }

  static Result ResultOf(LocalCluster* cluster) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    const nlohmann::json summary = cluster->Summary();
    EXPECT_FALSE(summary.value("weights_sha256", "").empty());
    return {summary.value("weights_sha256", "none"),
            summary.value("final_loss", -1.0),
            summary["evaluation"].value("loss", -1.0)};
  }

  Result Run(int workers, int servers) {
    LocalCluster cluster(job_, servers, workers,
                         Directory(absl::StrCat("run", ++runs_)));
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    return ResultOf(&cluster);
  }

  JobSpec job_;
  int runs_ = 0;
};

TEST_P(PipelineTest, StagesAndReplicasGiveTheBitsOfTheWholeModel) {
  Set("clip_norm=0.5");
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  // Two replicas of two stages.
  Set("parallel.pipeline={ stages: 2 }");
  EXPECT_TRUE(Run(/*workers=*/4, /*servers=*/2) == whole);
  // Fewer workers than stages, over the network.
  Set("parallel.pipeline={ stages: 3 schedule: ONE_F_ONE_B }");
  Set("parallel.recompute=true");
  Set("exchange.transport=WIRE");
  EXPECT_TRUE(Run(/*workers=*/2, /*servers=*/1) == whole);
}

TEST_P(PipelineTest, LocalStepsOfStagesGiveTheBitsOfTheWholeModel) {
  Set("exchange.parameter_server.consistency={ local_steps { inner_steps: 3 } "
      "}");
  Set("clip_norm=0");
  Set("steps=20");  // The last round has fewer.
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  Set("parallel.pipeline={ stages: 2 }");
  EXPECT_TRUE(Run(/*workers=*/4, /*servers=*/2) == whole);
  Set("parallel.pipeline={ stages: 3 schedule: ONE_F_ONE_B }");
  Set("exchange.transport=WIRE");
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/1) == whole);
  Set("parallel.pipeline={ stages: 3 schedule: GPIPE }");
  Set("parallel.recompute=true");
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/1) == whole);
}

TEST_P(PipelineTest, ShardedWeightsGiveTheBitsOfTheWholeModel) {
  Set("clip_norm=0.5");
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  Set("parallel.sharded_weights=true");
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/2) == whole);
  Set("parallel.recompute=true");
  EXPECT_TRUE(Run(/*workers=*/1, /*servers=*/1) == whole);
}

TEST_P(PipelineTest, ALostWorkerWithShardedWeightsCostsNoBits) {
  job_.set_steps(60);
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  Set("parallel.sharded_weights=true");
  LocalCluster cluster(job_, /*servers=*/1, /*workers=*/2,
                       Directory("sharded"));
  for (int i = 0; i < 2; ++i) cluster.StartWorkerOfRank(i);
  cluster.AwaitStep(10);
  cluster.KillWorker(0);
  cluster.AwaitStep(20);
  cluster.StartWorker();
  EXPECT_TRUE(ResultOf(&cluster) == whole);
}

// Enough steps that the worker is lost before the job's end.
constexpr int64_t kSteps = 120;

TEST_P(PipelineTest, ALostStageIsTakenOverWithTheSameBits) {
  job_.set_steps(kSteps);
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  constexpr int kStages = 3;
  Set(absl::StrCat("parallel.pipeline={ stages: ", kStages, " }"));
  for (int victim = 0; victim < kStages; ++victim) {
    for (const bool spare : {false, true}) {
      SCOPED_TRACE(absl::StrCat("worker ", victim, " is lost",
                                spare ? ", a spare waits" : ""));
      const int workers = kStages + (spare ? 1 : 0);
      LocalCluster cluster(job_, /*servers=*/1, workers,
                           Directory(absl::StrCat("lost", ++runs_)));
      for (int i = 0; i < workers; ++i) cluster.StartWorkerOfRank(i);
      cluster.AwaitStep(10);
      cluster.KillWorker(victim);
      // Without a spare, a worker returns after its neighbour has taken over.
      if (!spare) {
        cluster.AwaitStep(40);
        cluster.StartWorker();
      }
      EXPECT_TRUE(ResultOf(&cluster) == whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PipelineTest,
                         testing::Values("mlp", "gpt", "resnet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tributary
