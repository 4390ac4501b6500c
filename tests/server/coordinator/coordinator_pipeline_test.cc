// The coordinator of a pipeline: which worker computes which stages, and what
// happens when a stage is lost.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/membership/member_secrets.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kPipelineStages = 2;
constexpr int kPipelineLeaves = 4;

// One server, 4 micro-batches, two stages, the first of which has chunks 0 and
// 1.
class CoordinatorPipelineTest : public CoordinatorTest {
 protected:
  CoordinatorPipelineTest() {
    options_.job.mutable_parallel()->mutable_pipeline()->set_stages(
        kPipelineStages);
    options_.secret_key = "key";
  }

  void Begin(int workers, int64_t pieces = 0, int64_t steps = 9) {
    Make(/*servers=*/1, /*expected_workers=*/workers, steps, pieces);
    AddStage(/*layer_end=*/3, /*chunk_begin=*/0, /*chunk_end=*/2);
    AddStage(/*layer_end=*/4, /*chunk_begin=*/2, /*chunk_end=*/3);
    for (int i = 0; i < workers; ++i) Add();
    SayConfigured();
  }
  void AddStage(int layer_end, int chunk_begin, int chunk_end) {
    const int layer_begin =
        ready_.segment().empty()
            ? 0
            : ready_.segment().rbegin()->parameters().layer_end();
    StageSegment* const segment = ready_.add_segment();
    segment->set_last_layer(absl::StrCat("layer", layer_end));
    StageParameters* const stage = segment->mutable_parameters();
    stage->set_layer_begin(layer_begin);
    stage->set_layer_end(layer_end);
    stage->set_chunk_begin(chunk_begin);
    stage->set_chunk_end(chunk_end);
    ChunkRange* const read = stage->add_read_chunk();
    read->set_begin(chunk_begin);
    read->set_end(chunk_end);
  }

  // An attempt that the first worker prepares.
  void MakeWithKnownData(int expected_workers) {
    for (int i = 0; i < 2; ++i) {
      Make(/*servers=*/1, expected_workers, /*steps=*/9);
      options_.data = ready_.data();
    }
  }

  // Adds a worker that is ready.
  FakeWorker* Add() {
    workers_.push_back(std::make_unique<FakeWorker>());
    FakeWorker* const worker = workers_.back().get();
    EXPECT_TRUE(Join(worker).ok());
    ready_.set_stage_address(
        absl::StrCat("10.0.0.", worker->incarnation, ":1"));
    EXPECT_TRUE(SayReady(worker).ok());
    return worker;
  }
  void Lose(FakeWorker* worker) {
    coordinator_->OnWorkerDisconnected(worker->incarnation);
    for (auto it = workers_.begin(); it != workers_.end(); ++it) {
      if (it->get() != worker) continue;
      workers_.erase(it);
      return;
    }
  }

  // The newest Stage of a worker; without stages if there is none.
  static Stage StageOf(const FakeWorker& worker) {
    for (auto it = worker.orders.rbegin(); it != worker.orders.rend(); ++it) {
      if (it->has_stage()) return it->stage();
    }
    return Stage();
  }
  // The newest Deal of a worker since its newest Stage.
  static Deal DealOf(const FakeWorker& worker) {
    for (auto it = worker.orders.rbegin(); it != worker.orders.rend(); ++it) {
      if (it->has_deal()) return it->deal();
      if (it->has_stage()) break;
    }
    return Deal();
  }
  absl::Status SayStageSynced(FakeWorker* worker) {
    WorkerReport report;
    report.mutable_synced()->set_version(0);
    report.mutable_synced()->set_stage_generation(
        StageOf(*worker).generation());
    return Say(worker, report);
  }
  // All workers with new stages fetch their weights.
  void SyncAll() {
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < workers_.size(); ++i) {
        FakeWorker* const worker = workers_[i].get();
        const Stage stage = StageOf(*worker);
        if (stage.stage_end() == stage.stage_begin()) continue;
        int64_t& reported = synced_[worker->incarnation];
        if (reported == stage.generation()) continue;
        reported = stage.generation();
        EXPECT_TRUE(SayStageSynced(worker).ok());
        more = true;
      }
    }
  }

  // Checks that the newest Deals cover each stage of each micro-batch once, and
  // that they prove this.
  void ExpectAllDealt() {
    const MemberSecrets secrets(options_.secret_key);
    std::vector<int> times(kPipelineStages * kPipelineLeaves, 0);
    for (const auto& worker : workers_) {
      const Deal deal = DealOf(*worker);
      for (int s = deal.stage_begin(); s < deal.stage_end(); ++s) {
        for (int leaf = deal.leaf_begin(); leaf < deal.leaf_end(); ++leaf) {
          ++times[s * kPipelineLeaves + leaf];
        }
      }
      if (deal.stage_begin() == deal.stage_end()) continue;
      EXPECT_EQ(deal.chunk_begin(), deal.stage_begin() == 0 ? 0 : 2);
      EXPECT_EQ(deal.chunk_end(), deal.stage_end() == 1 ? 2 : 3);
      EXPECT_EQ(deal.secret(), secrets.OfAssignment(worker->incarnation, deal));
      for (const StagePeer& peer : deal.peer()) {
        EXPECT_EQ(peer.secret(),
                  secrets.OfPair(peer.incarnation(), worker->incarnation));
        EXPECT_EQ(peer.stage_address(),
                  absl::StrCat("10.0.0.", peer.incarnation(), ":1"));
      }
    }
    EXPECT_THAT(times, Each(1));
  }
  void SayStep(int64_t step) {
    EXPECT_TRUE(SaySums(/*shard=*/0, step, {1, 1, 1}).ok());
  }
  // Whether the worker has received StepComplete of this step.
  static bool ToldComplete(const FakeWorker& worker, int64_t step) {
    return std::any_of(worker.orders.begin(), worker.orders.end(),
                       [step](const CoordinatorOrder& order) {
                         return order.has_step_complete() &&
                                order.step_complete().step() == step;
                       });
  }

  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::map<int64_t, int64_t> synced_;  // Newest reported Stage, by incarnation.
};

TEST_F(CoordinatorPipelineTest, WorkersReceiveStagesAndThenMicroBatches) {
  Begin(/*workers=*/2);
  for (const auto& worker : workers_) {
    ASSERT_TRUE(worker->Got(CoordinatorOrder::kOpen));
    EXPECT_FALSE(worker->orders[1].open().initialize());
    EXPECT_TRUE(StageOf(*worker).initialize());
    EXPECT_EQ(StageOf(*worker).stage_size(), kPipelineStages);
    EXPECT_FALSE(worker->Got(CoordinatorOrder::kDeal));
  }
  EXPECT_TRUE(SayStageSynced(workers_[0].get()).ok());
  EXPECT_FALSE(workers_[0]->Got(CoordinatorOrder::kDeal));
  EXPECT_TRUE(SayStageSynced(workers_[1].get()).ok());
  ExpectAllDealt();
  SayStep(0);
  SayStep(1);
  for (const auto& worker : workers_) {
    EXPECT_TRUE(ToldComplete(*worker, 0));
    EXPECT_FALSE(ToldComplete(*worker, 1));
  }
}

TEST_F(CoordinatorPipelineTest, TellsOfTheStagesOnce) {
  std::vector<std::string> told;
  options_.on_event = [&told](const JobEvent& event) {
    if (event.kind() == "stage") told.push_back(event.message());
  };
  Begin(/*workers=*/2);
  EXPECT_THAT(told, ElementsAre(HasSubstr("to layer3 on worker 0"),
                                HasSubstr("to layer4 on worker 1")));
}

// Three segments. The stages are balanced for the times of both workers.
TEST_F(CoordinatorPipelineTest, WaitsForTheTimesOfAllExpectedWorkers) {
  MakeWithKnownData(/*expected_workers=*/2);
  for (int chunk = 0; chunk < 3; ++chunk) AddStage(chunk + 1, chunk, chunk + 1);
  const auto add = [this](double seconds) {
    for (StageSegment& segment : *ready_.mutable_segment()) {
      segment.set_forward_seconds(seconds);
    }
    return Add();
  };
  const FakeWorker* const slow = add(/*seconds=*/2);
  EXPECT_TRUE(slow->orders[0].admission().measures_layers());
  SayConfigured();
  EXPECT_FALSE(slow->Got(CoordinatorOrder::kStage));
  add(/*seconds=*/1);
  SayConfigured();
  ASSERT_TRUE(slow->Got(CoordinatorOrder::kStage));
  EXPECT_EQ(StageOf(*slow).stage(0).layer_end(), 1);
  SyncAll();
  EXPECT_FALSE(Add()->orders[0].admission().measures_layers());
}

TEST_F(CoordinatorPipelineTest, DoesNotWaitForWorkersThatDoNotCome) {
  MakeWithKnownData(/*expected_workers=*/2);
  AddStage(/*layer_end=*/3, /*chunk_begin=*/0, /*chunk_end=*/2);
  AddStage(/*layer_end=*/4, /*chunk_begin=*/2, /*chunk_end=*/3);
  FakeWorker* const worker = Add();
  SayConfigured();
  ASSERT_TRUE(worker->Got(CoordinatorOrder::kOpen));
  Pass(options_.start_timeout - absl::Seconds(1), {worker});
  EXPECT_FALSE(worker->Got(CoordinatorOrder::kStage));
  Pass(absl::Seconds(2), {worker});
  EXPECT_EQ(StageOf(*worker).stage_end(), 2);
  SyncAll();
  ExpectAllDealt();
}

// One of three workers does not come. The two others get stages, and training
// begins when both have them.
TEST_F(CoordinatorPipelineTest, AwaitsAllWorkersThatHaveCome) {
  MakeWithKnownData(/*expected_workers=*/3);
  AddStage(/*layer_end=*/3, /*chunk_begin=*/0, /*chunk_end=*/2);
  AddStage(/*layer_end=*/4, /*chunk_begin=*/2, /*chunk_end=*/3);
  FakeWorker* const first = Add();
  FakeWorker* const second = Add();
  SayConfigured();
  Pass(options_.start_timeout + absl::Seconds(1), {first, second});
  ASSERT_TRUE(first->Got(CoordinatorOrder::kStage));
  EXPECT_TRUE(SayStageSynced(first).ok());
  Pass(absl::Seconds(1), {first, second});
  EXPECT_NE(coordinator_->GetStatus().phase(), StatusReply::TRAINING);
  EXPECT_TRUE(SayStageSynced(second).ok());
  ExpectAllDealt();
}

TEST_F(CoordinatorPipelineTest, FailsIfNoDivisionFitsIntoMemory) {
  Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/9);
  AddStage(/*layer_end=*/3, /*chunk_begin=*/0, /*chunk_end=*/2);
  AddStage(/*layer_end=*/4, /*chunk_begin=*/2, /*chunk_end=*/3);
  ready_.mutable_segment(0)->set_parameter_bytes(1000);
  ready_.set_memory_bytes(500);
  FakeWorker* const worker = Add();
  SayConfigured();
  EXPECT_FALSE(worker->Got(CoordinatorOrder::kStage));
  EXPECT_EQ(coordinator_->GetStatus().failure_exit_code(), 2);
}

TEST_F(CoordinatorPipelineTest, ASpareDoesNotDelayTheStart) {
  Begin(/*workers=*/3);
  SyncAll();
  ExpectAllDealt();
  EXPECT_EQ(StageOf(*workers_[2]).generation(), 0);
  EXPECT_FALSE(workers_[2]->Got(CoordinatorOrder::kDeal));
}

// With two replicas, with and without a spare: every worker is lost in turn.
TEST_F(CoordinatorPipelineTest, ALostStageCostsAStep) {
  for (const int spares : {0, 1}) {
    for (int lost = 0; lost < 4; ++lost) {
      SCOPED_TRACE(absl::StrCat("worker ", lost, ", spares: ", spares));
      workers_.clear();
      synced_.clear();
      Begin(/*workers=*/4 + spares);
      SyncAll();
      ExpectAllDealt();
      SayStep(0);
      std::map<int64_t, Stage> before;
      for (const auto& worker : workers_) {
        before[worker->incarnation] = StageOf(*worker);
      }
      Lose(workers_[lost].get());
      ExpectAllDealt();  // The other replica takes all of them.
      int changed = 0;
      for (const auto& worker : workers_) {
        const Deal deal = DealOf(*worker);
        if (deal.stage_end() > deal.stage_begin()) {
          EXPECT_EQ(deal.first_step(), 1);
        }
        const Stage stage = StageOf(*worker);
        if (stage.generation() == before[worker->incarnation].generation()) {
          continue;
        }
        ++changed;
        EXPECT_FALSE(stage.initialize());
        EXPECT_EQ(before[worker->incarnation].generation() == 0, spares == 1);
      }
      EXPECT_EQ(changed, 1);
      SyncAll();
      ExpectAllDealt();
      for (const auto& worker : workers_) {
        const Deal deal = DealOf(*worker);
        EXPECT_LT(deal.leaf_begin(), deal.leaf_end());
      }
      SayStep(1);
    }
  }
}

TEST_F(CoordinatorPipelineTest, ANeighbourTakesTheOnlyOtherStage) {
  for (int lost = 0; lost < 2; ++lost) {
    workers_.clear();
    synced_.clear();
    Begin(/*workers=*/2);
    SyncAll();
    Lose(workers_[lost].get());
    EXPECT_EQ(StageOf(*workers_[0]).stage_begin(), 0);
    EXPECT_EQ(StageOf(*workers_[0]).stage_end(), 2);
    SyncAll();
    ExpectAllDealt();
    // A new worker relieves it.
    FakeWorker* const joined = Add();
    EXPECT_EQ(StageOf(*workers_[0]).stage_end(), 2);
    ExpectAllDealt();
    EXPECT_TRUE(SayStageSynced(joined).ok());
    synced_[joined->incarnation] = StageOf(*joined).generation();
    SyncAll();
    ExpectAllDealt();
    EXPECT_EQ(DealOf(*joined).stage_end() - DealOf(*joined).stage_begin(), 1);
  }
}

// Some of its stages have no worker while it prepares them.
TEST_F(CoordinatorPipelineTest, ADrainWaitsForTheWorkerThatTakesLostStages) {
  FakeCommitter committer;
  options_.checkpoints = &committer;
  options_.job.mutable_checkpoint()->set_every_steps(4);
  Begin(/*workers=*/2);
  SyncAll();
  SayStep(0);
  Lose(workers_[0].get());
  coordinator_->Drain();
  coordinator_->OnCheckpointFolder(std::string("folder-4"));
  coordinator_->OnCheckpointFolder(std::string("folder-3"));
  coordinator_->Tick();
  EXPECT_THAT(committer.folders, ElementsAre(4, 3));
  // If it is lost, too, there is only the newest step.
  Lose(workers_[0].get());
  coordinator_->Tick();
  EXPECT_THAT(committer.folders, ElementsAre(4, 3, 1));
  coordinator_ = nullptr;
}

// The state that is saved with a version must not know later evaluations.
TEST_F(CoordinatorPipelineTest, AnEvaluationCountsWhenTheStepsBeforeItDo) {
  options_.job.mutable_evaluation()->set_every_steps(1);
  Begin(/*workers=*/2, /*pieces=*/1);
  SyncAll();
  WorkerReport report;
  report.mutable_evaluation()->set_version(1);
  report.mutable_evaluation()->set_weight(1);
  ASSERT_TRUE(Say(workers_[1].get(), report).ok());
  EXPECT_FALSE(workers_[0]->Got(CoordinatorOrder::kEvaluated));
  SayStep(0);
  EXPECT_TRUE(workers_[0]->Got(CoordinatorOrder::kEvaluated));
}

TEST_F(CoordinatorPipelineTest, AStageIsReplacedBeforeTrainingBegins) {
  Begin(/*workers=*/3);
  Lose(workers_[1].get());
  EXPECT_EQ(StageOf(*workers_[1]).stage_begin(), 1);
  EXPECT_TRUE(StageOf(*workers_[1]).initialize());
  FakeWorker* const joined = Add();
  SyncAll();
  ExpectAllDealt();
  EXPECT_EQ(StageOf(*joined).generation(), 0);
}

TEST_F(CoordinatorPipelineTest, TheLastStageReportsThePiecesOfItsReplica) {
  Begin(/*workers=*/4, /*pieces=*/2, /*steps=*/1);
  SyncAll();
  SayStep(0);
  for (const auto& worker : workers_) {
    const Deal deal = DealOf(*worker);
    if (deal.stage_end() != kPipelineStages) continue;
    ASSERT_EQ(deal.piece_end() - deal.piece_begin(), 1);
    WorkerReport report;
    report.mutable_evaluation()->set_version(1);
    report.mutable_evaluation()->set_piece(deal.piece_begin());
    report.mutable_evaluation()->set_weight(1);
    EXPECT_TRUE(Say(worker.get(), report).ok());
    report.mutable_evaluation()->set_piece(1 - deal.piece_begin());
    EXPECT_THAT(Say(worker.get(), report),
                StatusIs(absl::StatusCode::kInvalidArgument));
    break;
  }
}

TEST_F(CoordinatorPipelineTest, DismissesAWorkerThatDoesNotFetchItsWeights) {
  options_.stall_timeout = absl::Seconds(5);
  Begin(/*workers=*/3);
  std::vector<FakeWorker*> all;
  for (const auto& worker : workers_) all.push_back(worker.get());
  Pass(absl::Seconds(4), all);
  EXPECT_EQ(workers_[0]->closed, absl::OkStatus());
  now_ += absl::Seconds(2);
  coordinator_->Tick();
  EXPECT_TRUE(absl::IsDeadlineExceeded(workers_[0]->closed));
  // The spare has nothing to fetch.
  EXPECT_EQ(workers_[2]->closed, absl::OkStatus());
}

TEST_F(CoordinatorPipelineTest, RefusesTooFewSegments) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  AddStage(/*layer_end=*/3, /*chunk_begin=*/0, /*chunk_end=*/3);
  FakeWorker worker;
  ASSERT_TRUE(Join(&worker).ok());
  EXPECT_THAT(SayReady(&worker),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages is 2")));
}

}  // namespace
}  // namespace tributary
