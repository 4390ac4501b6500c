// Jobs with an all-reduce between the replicas of a pipeline have the bits of
// the undivided job with a parameter server, also when workers are lost.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "tests/integration/stages/stages_fixture.h"
#include "tests/support/local_cluster.h"

namespace tributary {
namespace {

class AllReduceStagesTest : public StagesFixture {
 protected:
  // Small chunks, so that each stage has several of them.
  AllReduceStagesTest() { Set("exchange.parameter_server.chunk_bytes=4096"); }

  void SetStages(int stages, bool shard_optimizer,
                 const std::string& schedule = "ZERO_BUBBLE") {
    Set(absl::StrCat(
        "exchange.all_reduce={ chunk_bytes: 4096 shard_optimizer: ",
        shard_optimizer ? "true" : "false", " }"));
    Set(absl::StrCat("parallel.pipeline={ stages: ", stages,
                     " schedule: ", schedule, " }"));
  }
};

TEST_P(AllReduceStagesTest, ReplicasOfStagesGiveTheBitsOfTheWholeModel) {
  Set("clip_norm=0.5");
  const Result whole = Run(/*workers=*/1);
  for (const int stages : {2, 3}) {
    for (const int replicas : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(stages, " stages, ", replicas, " replicas"));
      SetStages(stages, /*shard_optimizer=*/(stages + replicas) % 2 == 0,
                replicas == 2 ? "ONE_F_ONE_B" : "ZERO_BUBBLE");
      EXPECT_TRUE(Run(stages * replicas) == whole);
    }
  }
  // A worker with several stages.
  SetStages(/*stages=*/3, /*shard_optimizer=*/false, "GPIPE");
  EXPECT_TRUE(Run(/*workers=*/2) == whole);
}

TEST_P(AllReduceStagesTest, UpdatesThatDoNotWaitGiveTheSame) {
  const Result whole = Run(/*workers=*/1);
  SetStages(/*stages=*/2, /*shard_optimizer=*/false);
  EXPECT_TRUE(Run(/*workers=*/4) == whole);
  SetStages(/*stages=*/3, /*shard_optimizer=*/true);
  Set("parallel.recompute=true");
  EXPECT_TRUE(Run(/*workers=*/6) == whole);
}

// Enough steps that a checkpoint is complete before the job's end.
TEST_P(AllReduceStagesTest, ResumesFromACheckpointWithOtherStages) {
  constexpr int64_t kSteps = 120;
  job_.set_steps(kSteps);
  Set("checkpoint.every_steps=8");
  Set("checkpoint.keep_last=100");
  const Result whole = Run(/*workers=*/1);
  SetStages(/*stages=*/2, /*shard_optimizer=*/true);
  EXPECT_TRUE(Run(/*workers=*/4) == whole);
  const auto checkpoints = ListCheckpoints(CheckpointsFolder(folder_));
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  const CheckpointName& oldest = checkpoints->back();
  EXPECT_LT(oldest.step, kSteps);
  SetStages(/*stages=*/3, /*shard_optimizer=*/false);
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/1, oldest.path) == whole);
}

// Enough steps that the worker is lost before the job's end.
constexpr int64_t kStepsWithLoss = 120;

TEST_P(AllReduceStagesTest, ALostWorkerOfAnyStageCostsNoBits) {
  job_.set_steps(kStepsWithLoss);
  Set("checkpoint.every_steps=8");
  const Result whole = Run(/*workers=*/1);
  constexpr int kStages = 2;
  constexpr int kReplicas = 2;
  SetStages(kStages, /*shard_optimizer=*/false);
  for (int victim = 0; victim < kStages * kReplicas; ++victim) {
    SCOPED_TRACE(absl::StrCat("worker ", victim, " is lost"));
    LocalCluster cluster(job_, /*servers=*/1, kStages * kReplicas, NewFolder());
    for (int i = 0; i < kStages * kReplicas; ++i) cluster.StartWorkerOfRank(i);
    cluster.AwaitStep(20);
    cluster.KillWorker(victim);
    // Half of the time, the others continue with one replica and a spare.
    if (victim % 2 == 0) cluster.StartWorkerOfRank(victim);
    EXPECT_TRUE(ResultOf(&cluster) == whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, AllReduceStagesTest,
                         testing::Values("mlp", "gpt", "resnet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tributary
