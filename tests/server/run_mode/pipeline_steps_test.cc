#include "server/run_mode/pipeline_steps.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/run_mode/run_mode_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Orders = std::map<int64_t, std::vector<CoordinatorOrder>>;

// A pipeline of up to six stages, each of which has a layer and a chunk of its
// own.
class PipelineStepsTest : public RunModeTest {
 protected:
  void Make(int stages, int64_t version = 0) {
    job_.mutable_parallel()->mutable_pipeline()->set_stages(stages);
    RunModeTest::Make();
    ASSERT_TRUE(mode_->OnReady(kAnyWorker, ReadyFor(stages)).ok());
    mode_->Begin(version, ReadyFor(stages));
    chosen_ = false;
  }

  // Adds a worker that has received Open.
  int64_t AddOpened() {
    const int64_t worker = AddWorker();
    Member* const member = membership_.Find(worker);
    member->synced = false;
    member->stage_address = absl::StrCat("worker-", worker, ":1");
    return worker;
  }

  // Adds workers that have received Open and the weights of their stages.
  std::vector<int64_t> AddSynced(int count) {
    std::vector<int64_t> workers;
    for (int i = 0; i < count; ++i) workers.push_back(AddOpened());
    OrderStages();
    for (const int64_t worker : workers) Sync(worker);
    return workers;
  }

  // What each worker was told last.
  struct Told {
    Stage stage;
    Deal deal;  // Since the stage.
  };

  void Take(const Orders& orders) {
    for (const auto& [worker, list] : orders) {
      for (const CoordinatorOrder& order : list) {
        if (order.has_stage()) {
          EXPECT_GT(order.stage().generation(),
                    told_[worker].stage.generation());
          told_[worker] = {order.stage(), Deal()};
        } else {
          EXPECT_GT(order.deal().generation(), told_[worker].deal.generation());
          told_[worker].deal = order.deal();
        }
      }
    }
  }
  void OrderStages() {
    if (!std::exchange(chosen_, true)) {
      ASSERT_TRUE(mode_->ChooseStages().ok());
    }
    Take(mode_->OrderStages(absl::UnixEpoch()));
  }
  void Assign(int64_t pieces = 0) {
    Take(mode_->Assign(pieces, absl::UnixEpoch()));
  }

  bool AwaitsSynced(int64_t worker) {
    return told_[worker].stage.stage_end() >
               told_[worker].stage.stage_begin() &&
           !membership_.Find(worker)->synced;
  }
  // Reports that the worker has the weights of its newest stages.
  void Sync(int64_t worker) {
    Synced synced;
    synced.set_stage_generation(told_[worker].stage.generation());
    Member* const member = membership_.Find(worker);
    ASSERT_TRUE(mode_->OnSynced(*member, synced));
    member->synced = true;
  }
  void Lose(int64_t worker) {
    membership_.Remove(worker);
    mode_->RemoveWorker(worker);
    told_.erase(worker);
  }
  // Returns the stages of a worker's newest Stage.
  std::pair<int, int> StagesOf(int64_t worker) {
    return {told_[worker].stage.stage_begin(), told_[worker].stage.stage_end()};
  }

  // Checks the newest Deals. Returns true if they cover every stage of every
  // micro-batch, and false if they cover none.
  bool CheckDeals(int stages) {
    std::map<std::pair<int, int>, int> times;  // Of each stage and leaf.
    for (const auto& [worker, told] : told_) {
      const Deal& deal = told.deal;
      if (deal.stage_begin() == deal.stage_end()) {
        EXPECT_EQ(deal.leaf_begin(), deal.leaf_end());
        continue;
      }
      EXPECT_EQ(deal.stage_begin(), told.stage.stage_begin());
      EXPECT_EQ(deal.stage_end(), told.stage.stage_end());
      EXPECT_EQ(deal.chunk_begin(), deal.stage_begin());
      EXPECT_EQ(deal.chunk_end(), deal.stage_end());
      EXPECT_TRUE(membership_.Find(worker)->synced);
      EXPECT_EQ(membership_.Find(worker)->micro_batches,
                deal.leaf_end() - deal.leaf_begin());
      int computed = deal.stage_end() - deal.stage_begin();
      for (const StagePeer& peer : deal.peer()) {
        EXPECT_NE(peer.incarnation(), worker);
        const auto other = told_.find(peer.incarnation());
        if (other == told_.end()) {
          ADD_FAILURE() << "worker " << peer.incarnation() << " is gone";
          continue;
        }
        EXPECT_EQ(other->second.deal.generation(), deal.generation());
        EXPECT_EQ(other->second.deal.stage_begin(), peer.stage_begin());
        EXPECT_EQ(other->second.deal.stage_end(), peer.stage_end());
        EXPECT_EQ(other->second.deal.leaf_begin(), deal.leaf_begin());
        EXPECT_EQ(peer.leaf_begin(), deal.leaf_begin());
        EXPECT_EQ(peer.leaf_end(), deal.leaf_end());
        EXPECT_EQ(peer.stage_address(),
                  absl::StrCat("worker-", peer.incarnation(), ":1"));
        computed += peer.stage_end() - peer.stage_begin();
      }
      EXPECT_EQ(computed, stages);
      for (int s = deal.stage_begin(); s < deal.stage_end(); ++s) {
        for (int l = deal.leaf_begin(); l < deal.leaf_end(); ++l) {
          ++times[{s, l}];
        }
      }
    }
    for (const auto& [what, count] : times) EXPECT_EQ(count, 1);
    const bool all = static_cast<int>(times.size()) == 4 * stages;
    EXPECT_TRUE(all || times.empty());
    return all;
  }

  std::map<int64_t, Told> told_;
  bool chosen_ = false;
};

TEST_F(PipelineStepsTest, StagesComeBeforeMicroBatches) {
  Make(/*stages=*/2);
  const int64_t a = AddOpened();
  const int64_t b = AddOpened();
  OrderStages();
  EXPECT_EQ(StagesOf(a), std::make_pair(0, 1));
  EXPECT_EQ(StagesOf(b), std::make_pair(1, 2));
  EXPECT_TRUE(told_[a].stage.initialize());
  EXPECT_EQ(told_[a].stage.stage_size(), 2);
  OrderStages();  // Changes nothing.
  Sync(a);
  Assign();
  EXPECT_FALSE(CheckDeals(2));
  EXPECT_EQ(mode_->Awaited(0), membership_.Find(b));
  Sync(b);
  Assign(/*pieces=*/3);
  EXPECT_TRUE(CheckDeals(2));
  EXPECT_EQ(told_[a].deal.piece_end(), 3);
  EXPECT_EQ(told_[b].deal.piece_end(), 3);
  EXPECT_EQ(mode_->Awaited(0), nullptr);
}

TEST_F(PipelineStepsTest, KeepsDealsThatWouldNotChange) {
  Make(/*stages=*/2);
  AddSynced(2);
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  AddOpened();  // A spare.
  EXPECT_THAT(mode_->Assign(/*pieces=*/0, absl::UnixEpoch()), IsEmpty());
}

TEST_F(PipelineStepsTest, ReplicasDivideMicroBatchesAndPieces) {
  Make(/*stages=*/2);
  for (int i = 0; i < 5; ++i) AddOpened();
  OrderStages();
  int spares = 0;
  for (const auto& [worker, member] : membership_.members()) {
    // A spare counts as synced, so that training does not wait for it.
    if (told_.count(worker) == 0) {
      ++spares;
      EXPECT_TRUE(member.synced);
    } else {
      Sync(worker);
    }
  }
  EXPECT_EQ(spares, 1);
  Assign(/*pieces=*/6);
  EXPECT_TRUE(CheckDeals(2));
  std::set<std::pair<int64_t, int64_t>> pieces;
  for (const auto& [worker, told] : told_) {
    pieces.insert({told.deal.piece_begin(), told.deal.piece_end()});
  }
  using Pieces = std::pair<int64_t, int64_t>;
  EXPECT_THAT(pieces, ElementsAre(Pieces(0, 3), Pieces(3, 6)));
}

TEST_F(PipelineStepsTest, TheOtherReplicaContinuesWhileALostStageIsReplaced) {
  Make(/*stages=*/2);
  const std::vector<int64_t> workers = AddSynced(4);
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  mode_->OnStepComplete(4);
  Lose(workers[1]);
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  EXPECT_EQ(StagesOf(workers[0]), std::make_pair(0, 2));
  EXPECT_FALSE(told_[workers[0]].stage.initialize());
  EXPECT_EQ(told_[workers[2]].deal.leaf_end(), 4);
  EXPECT_EQ(told_[workers[2]].deal.first_step(), 5);
  Sync(workers[0]);
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  // It needs twice the time.
  EXPECT_EQ(told_[workers[0]].deal.leaf_end(), 1);
  EXPECT_EQ(told_[workers[0]].deal.peer_size(), 0);
}

TEST_F(PipelineStepsTest, WorkersOfABrokenReplicaComputeNothing) {
  Make(/*stages=*/3);
  const std::vector<int64_t> workers = AddSynced(3);
  Assign();
  Lose(workers[2]);
  Assign();
  EXPECT_FALSE(CheckDeals(3));
  const Deal& deal = told_[workers[0]].deal;
  EXPECT_EQ(deal.leaf_end(), 0);
  EXPECT_EQ(deal.stage_begin(), deal.stage_end());
  EXPECT_GT(deal.stage_end(), 0) << "it is still a pipeline";
}

// A spare that relieves a worker prepares itself before that worker stops.
TEST_F(PipelineStepsTest, HandsAStageOverWhenTheNewWorkerIsReady) {
  Make(/*stages=*/2);
  const int64_t old = AddSynced(1)[0];
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  const int64_t joined = AddOpened();
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  EXPECT_EQ(StagesOf(old), std::make_pair(0, 2));
  EXPECT_EQ(told_[joined].stage.stage_end() - told_[joined].stage.stage_begin(),
            1);
  const Deal before = told_[old].deal;
  EXPECT_EQ(before.leaf_end(), 4);
  Sync(joined);
  Assign();
  EXPECT_FALSE(CheckDeals(2));
  EXPECT_TRUE(AwaitsSynced(old));
  Sync(old);
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  EXPECT_EQ(told_[old].deal.peer_size(), 1);
}

TEST_F(PipelineStepsTest, IgnoresReportsAboutFormerStages) {
  Make(/*stages=*/2);
  const int64_t a = AddOpened();
  OrderStages();
  Synced synced;
  synced.set_stage_generation(told_[a].stage.generation());
  AddOpened();
  OrderStages();
  ASSERT_NE(told_[a].stage.generation(), synced.stage_generation());
  EXPECT_FALSE(mode_->OnSynced(*membership_.Find(a), synced));
  const int64_t spare = AddOpened();
  OrderStages();
  EXPECT_FALSE(mode_->OnSynced(*membership_.Find(spare), Synced()));
}

// Six segments in two stages. The first worker is half as fast as the others,
// and the last one is a spare.
TEST_F(PipelineStepsTest, BalancesStagesForTheWorkersOfTheBeginning) {
  job_.mutable_parallel()->mutable_pipeline()->set_stages(2);
  RunModeTest::Make();
  const Ready job = ReadyFor(6);
  ASSERT_TRUE(mode_->OnReady(kAnyWorker, job).ok());
  mode_->Begin(/*version=*/0, job);
  std::vector<int64_t> workers;
  for (const double seconds : {2.0, 1.0}) {
    workers.push_back(AddOpened());
    Ready ready = job;
    for (StageSegment& segment : *ready.mutable_segment()) {
      segment.set_forward_seconds(seconds);
    }
    ASSERT_TRUE(mode_->OnReady(workers.back(), ready).ok());
  }
  OrderStages();
  ASSERT_EQ(told_[workers[0]].stage.stage_size(), 2);
  EXPECT_EQ(told_[workers[0]].stage.stage(0).layer_end(), 2);
  EXPECT_EQ(told_[workers[0]].stage.stage(0).chunk_end(), 2);
  EXPECT_EQ(StagesOf(workers[0]), std::make_pair(0, 1));
  for (const int64_t worker : workers) Sync(worker);
  Assign();
  EXPECT_EQ(told_[workers[1]].deal.chunk_begin(), 2);
  // The stages stay the same when a worker is replaced.
  Lose(workers[0]);
  const int64_t joined = AddOpened();
  Assign();
  EXPECT_EQ(StagesOf(joined), std::make_pair(0, 1));
  EXPECT_EQ(told_[joined].stage.stage(0).layer_end(), 2);
}

TEST_F(PipelineStepsTest, FailsIfNoDivisionFitsIntoMemory) {
  job_.mutable_parallel()->mutable_pipeline()->set_stages(2);
  RunModeTest::Make();
  Ready job = ReadyFor(2);
  job.mutable_segment(1)->set_parameter_bytes(1000);
  job.set_memory_bytes(999);
  mode_->Begin(/*version=*/0, job);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(mode_->OnReady(AddOpened(), job).ok());
  }
  EXPECT_THAT(
      mode_->ChooseStages(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("stage 1")));
}

TEST_F(PipelineStepsTest, InitializesUntilAllStagesHaveTheirWeights) {
  Make(/*stages=*/2);
  const int64_t a = AddOpened();
  const int64_t b = AddOpened();
  OrderStages();
  Sync(a);
  Lose(b);
  OrderStages();
  EXPECT_TRUE(told_[a].stage.initialize());
  Sync(a);
  const int64_t c = AddOpened();
  OrderStages();
  EXPECT_FALSE(told_[c].stage.initialize());
}

TEST_F(PipelineStepsTest, InitializesNothingThatIsResumed) {
  Make(/*stages=*/2, /*version=*/7);
  const int64_t a = AddOpened();
  OrderStages();
  EXPECT_FALSE(told_[a].stage.initialize());
  Sync(a);
  Assign();
  EXPECT_EQ(told_[a].deal.first_step(), 7);
}

TEST_F(PipelineStepsTest, AnnouncesTheFirstCompleteStepAfterADeal) {
  Make(/*stages=*/2);
  const int64_t a = AddSynced(1)[0];
  Assign();
  for (const int64_t step : {0, 1, 2}) mode_->OnStepComplete(step);
  ASSERT_EQ(links_[a].orders.size(), 1u);
  EXPECT_EQ(links_[a].orders[0].step_complete().step(), 0);
}

TEST_F(PipelineStepsTest, RefusesWorkersWhoseModelHasOtherLayers) {
  Make(/*stages=*/2);
  Ready other = ReadyFor(2);
  EXPECT_TRUE(mode_->OnReady(kAnyWorker, other).ok());
  other.mutable_segment(1)->mutable_parameters()->set_layer_end(5);
  EXPECT_THAT(
      mode_->OnReady(kAnyWorker, other),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("5 layers")));
  EXPECT_THAT(mode_->OnReady(kAnyWorker, Ready()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PipelineStepsTest, TheSlowestStageDecidesAboutTheMicroBatches) {
  Make(/*stages=*/2);
  const std::vector<int64_t> workers = AddSynced(4);
  Assign();
  EXPECT_EQ(told_[workers[0]].deal.leaf_end(), 2);
  for (size_t i = 0; i < workers.size(); ++i) {
    EXPECT_FALSE(mode_->AssignmentIsSlow(absl::UnixEpoch())) << i;
    for (int beat = 1; beat <= 5; ++beat) {
      Heartbeat heartbeat;
      heartbeat.mutable_statistics()->set_threads(1);
      heartbeat.mutable_statistics()->set_leaves(beat);
      heartbeat.mutable_statistics()->set_leaf_seconds(beat * (i == 1 ? 3 : 1));
      membership_.AddHeartbeat(membership_.Find(workers[i]), heartbeat,
                               /*waiting_seconds=*/0, absl::UnixEpoch());
    }
  }
  EXPECT_TRUE(mode_->AssignmentIsSlow(absl::UnixEpoch()));
  Assign();
  EXPECT_TRUE(CheckDeals(2));
  EXPECT_EQ(told_[workers[0]].deal.leaf_end(), 1);
  EXPECT_FALSE(mode_->AssignmentIsSlow(absl::UnixEpoch()));
}

TEST_F(PipelineStepsTest, ASpareThatPreparesItselfDelaysNobody) {
  Make(/*stages=*/2);
  const int64_t old = AddOpened();
  OrderStages();
  EXPECT_EQ(mode_->Awaited(0), membership_.Find(old));
  Sync(old);
  Assign();
  AddOpened();
  Assign();
  EXPECT_EQ(mode_->Awaited(0), nullptr);
}

// Workers join, are lost and fetch weights in random orders. At any time the
// Deals cover everything once or nothing, and they cover everything when the
// workers have had the time to fetch their weights.
TEST_F(PipelineStepsTest, RandomHistoriesKeepThePipelineWhole) {
  std::mt19937 random(11);
  for (int history = 0; history < 200; ++history) {
    const int stages = 1 + static_cast<int>(random() % 5);
    Make(stages);
    std::vector<int64_t> workers = {AddOpened()};
    OrderStages();
    int64_t step = 0;
    for (int event = 0; event < 60; ++event) {
      SCOPED_TRACE(absl::StrCat("history ", history, ", event ", event));
      const int kind = static_cast<int>(random() % 6);
      if (kind == 0 && workers.size() < 12) {
        workers.push_back(AddOpened());
      } else if (kind == 1 && workers.size() > 1) {
        const size_t lost = random() % workers.size();
        Lose(workers[lost]);
        workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(lost));
      } else if (kind == 2) {
        mode_->OnStepComplete(step++);
        continue;
      } else {
        const int64_t worker = workers[random() % workers.size()];
        if (!AwaitsSynced(worker)) continue;
        Sync(worker);
      }
      Assign();
      (void)CheckDeals(stages);
      if (HasFailure()) return;
    }
    for (bool waits = true; waits;) {
      waits = false;
      for (const int64_t worker : workers) {
        if (!AwaitsSynced(worker)) continue;
        Sync(worker);
        Assign();
        waits = true;
      }
    }
    EXPECT_TRUE(CheckDeals(stages)) << "history " << history;
    for (const auto& [worker, told] : told_) {
      if (told.deal.generation() > 0 && !told.deal.peer().empty()) {
        EXPECT_LE(told.deal.first_step(), step);
      }
    }
    if (HasFailure()) return;
    for (const int64_t worker : workers) Lose(worker);
  }
}

}  // namespace
}  // namespace tributary
