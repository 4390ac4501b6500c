// Jobs whose model is divided into stages have the bits of the undivided job,
// also when the worker of a stage is lost.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/stages/stages_fixture.h"
#include "tests/support/local_cluster.h"

namespace tributary {
namespace {

class PipelineTest : public StagesFixture {};

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
  LocalCluster cluster(job_, /*servers=*/1, /*workers=*/2, NewFolder());
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
      LocalCluster cluster(job_, /*servers=*/1, workers, NewFolder());
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
