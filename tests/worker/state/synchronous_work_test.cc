#include "worker/state/synchronous_work.h"

#include <sys/mman.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "common/os/process.h"
#include "common/os/shared_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/state/work_state_fixture.h"

namespace tributary {
namespace {

using Kind = Task::Kind;
using Arrival = WorkState::Arrival;
using ::testing::HasSubstr;

// Three chunks of 16 elements; four steps, evaluation after every second.
class SynchronousWorkTest : public WorkStateFixture {
 protected:
  SynchronousWorkTest() : WorkStateFixture(/*pieces=*/0) {
    state_ = std::make_unique<SynchronousWork>(
        WorkState::Options{/*steps=*/4, /*evaluates=*/true,
                           /*evaluate_every=*/2},
        layout_.get());
  }

  // Assigns all four micro-batches after the evaluation of version 2.
  void AssignAfterEvaluation() {
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_end(4);
    deal.set_evaluated_version(2);
    deal.set_rate_factor(0.25);
    state_->SetAssignment(deal);
  }
};

TEST_F(SynchronousWorkTest, GoesFromInitializingToTrainingToTheEnd) {
  state_->RequestInitialize();
  EXPECT_EQ(state_->Next().kind, Kind::kInitialize);
  Begin();
  for (int64_t step = 0; step < 4; ++step) {
    if (step > 0 && step % 2 == 0) state_->SetEvaluated(step);
    const Task task = state_->Next();
    EXPECT_EQ(task.kind, Kind::kTrain);
    EXPECT_EQ(task.version, step);
    EXPECT_EQ(task.items, (std::vector<int64_t>{0, 1, 2, 3}));
    state_->MarkDone(task);
    ArriveAll(step + 1);
  }
  state_->SetFinished();
  EXPECT_EQ(state_->Next().kind, Kind::kFinish);
}

TEST_F(SynchronousWorkTest, AStepHasTheRateFactorOfTheEvaluationBeforeIt) {
  Begin();
  std::vector<double> factors;
  for (int64_t step = 0; step < 4; ++step) {
    const Task task = state_->Next();
    // The others have completed step 1.
    if (step == 1) state_->SetEvaluated(2, 0.5);
    ASSERT_EQ(task.version, step);
    factors.push_back(task.rate_factor);
    state_->MarkDone(task);
    ArriveAll(step + 1);
  }
  EXPECT_EQ(factors, (std::vector<double>{1, 1, 0.5, 0.5}));
}

TEST_F(SynchronousWorkTest, AnAssignmentHasTheRateFactorForALateWorker) {
  ArriveAll(2);
  EXPECT_EQ(state_->Next().kind, Kind::kReportSynced);
  AssignAfterEvaluation();
  const Task train = state_->Next();
  EXPECT_EQ(train.version, 2);
  EXPECT_EQ(train.rate_factor, 0.25);
}

// Weights and notices come from different servers.
TEST_F(SynchronousWorkTest, AwaitsTheNoticeOfAnEvaluationThatWeightsOvertake) {
  Begin();
  ArriveAll(1);
  ArriveAll(2);
  ArriveAll(3);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  state_->SetEvaluated(2, 0.5);
  const Task task = state_->Next();
  EXPECT_EQ(task.version, 3);
  EXPECT_EQ(task.rate_factor, 0.5);
}

// A resumed job may evaluate other versions than before.
TEST_F(SynchronousWorkTest, AwaitsNoNoticeOfAnEvaluationBeforeItsFirstVersion) {
  ArriveAll(3);
  EXPECT_EQ(state_->Next().kind, Kind::kReportSynced);
  SetAssignment(1, 0, 4);
  EXPECT_EQ(state_->Next().version, 3);
}

TEST_F(SynchronousWorkTest, ALateWorkerComputesNoStepBeforeTheEvaluation) {
  ArriveAll(1);
  EXPECT_EQ(state_->Next().kind, Kind::kReportSynced);
  AssignAfterEvaluation();
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  ArriveAll(2);
  EXPECT_EQ(state_->Next().version, 2);
}

// The coordinator says so as soon as the others have the last version.
TEST_F(SynchronousWorkTest, WaitsForTheLastWeightsWhenTheJobIsFinished) {
  Begin();
  for (int64_t version = 1; version < 4; ++version) ArriveAll(version);
  state_->SetEvaluated(2);
  EXPECT_EQ(state_->Next().kind, Kind::kTrain);
  state_->SetFinished();
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  ArriveAll(4);
  EXPECT_EQ(state_->Next().kind, Kind::kFinish);
}

TEST_F(SynchronousWorkTest, EvaluatesBeforeTheStepAndWaitsForTheOthers) {
  Begin();
  ArriveAll(1);
  ArriveAll(2);
  SetAssignment(2, 0, 4, /*pieces=*/3);
  Task task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.version, 2);
  EXPECT_EQ(task.items.size(), 3);
  state_->MarkDone(task);
  // Another worker died: its pieces are assigned anew.
  SetAssignment(3, 0, 4, /*pieces=*/5);
  task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.items, (std::vector<int64_t>{3, 4}));
  state_->MarkDone(task);
  state_->SetEvaluated(2);
  EXPECT_EQ(state_->Next().kind, Kind::kTrain);
}

TEST_F(SynchronousWorkTest, ComputesReassignedMicroBatchesInTheSameStep) {
  Begin();
  SetAssignment(2, 0, 2);
  Task task = state_->Next();
  EXPECT_EQ(task.items, (std::vector<int64_t>{0, 1}));
  state_->MarkDone(task);
  SetAssignment(3, 0, 4);
  task = state_->Next();
  EXPECT_EQ(task.version, 0);
  EXPECT_EQ(task.items, (std::vector<int64_t>{2, 3}));
}

TEST_F(SynchronousWorkTest, BeginsTheNextStepOnTheFirstChunks) {
  Begin();
  state_->MarkDone(state_->Next());
  EXPECT_EQ(Arrive(0, 1), Arrival::kWrite);
  const Task task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kTrain);
  EXPECT_EQ(task.version, 1);
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 16));
  EXPECT_EQ(state_->Weights(1)[0], 100);

  absl::Notification there;
  std::thread waiter([&] {
    EXPECT_TRUE(state_->AwaitWeights(task, 16, 48));
    there.Notify();
  });
  Arrive(1, 1);
  EXPECT_FALSE(there.HasBeenNotified());
  Arrive(2, 1);
  waiter.join();
}

TEST_F(SynchronousWorkTest,
       GivesTheNextStepUpWhenMicroBatchesOfThisOneAreReassigned) {
  Begin();
  SetAssignment(2, 0, 2);
  state_->MarkDone(state_->Next());
  Arrive(0, 1);
  const Task ahead = state_->Next();
  EXPECT_EQ(ahead.version, 1);
  SetAssignment(3, 0, 4);
  EXPECT_FALSE(state_->AwaitWeights(ahead, 16, 48));
  const Task again = state_->Next();
  EXPECT_EQ(again.version, 0);
  EXPECT_EQ(again.items, (std::vector<int64_t>{2, 3}));
}

TEST_F(SynchronousWorkTest, ParksChunksThatWouldOverwriteWhatIsBeingRead) {
  int unparked = 0;
  state_->SetUnparked([&] { ++unparked; });
  Begin();
  const Task task = state_->Next();
  EXPECT_EQ(task.version, 0);
  ArriveAll(1);
  // The others have finished step 1 without this worker, whose lease ended.
  EXPECT_EQ(Arrive(0, 2), Arrival::kPark);
  EXPECT_EQ(state_->Weights(0)[0], 0);
  EXPECT_EQ(unparked, 0);
  EXPECT_EQ(state_->Next().version, 1);
  EXPECT_EQ(unparked, 1);
  EXPECT_EQ(Arrive(0, 2), Arrival::kWrite);
}

TEST_F(SynchronousWorkTest, DropsOldChunks) {
  ArriveAll(3);
  EXPECT_EQ(Arrive(0, 1), Arrival::kDrop);
  EXPECT_EQ(Arrive(0, 3), Arrival::kDrop);
  EXPECT_EQ(Arrive(0, 2), Arrival::kWrite);
}

TEST_F(SynchronousWorkTest, FirstFailureEndsEveryWait) {
  Begin();
  state_->MarkDone(state_->Next());
  std::thread failing([&] {
    state_->Fail(absl::UnavailableError("lost server 0"));
    state_->Fail(absl::UnavailableError("lost server 1"));
  });
  EXPECT_EQ(state_->Next().kind, Kind::kFail);
  failing.join();
  EXPECT_EQ(state_->status().message(), "lost server 0");
  Task task;
  task.version = 1;
  EXPECT_FALSE(state_->AwaitWeights(task, 0, 16));
}

// A GPU would not see what is written to pages that the kernel allocates after
// they were pinned.
class SynchronousWorkMemoryTest : public ::testing::TestWithParam<int> {};

// Two servers, of which that with the parameter's number shares its memory. The
// last of the three chunks is shorter, and does not fill its last page.
TEST_P(SynchronousWorkMemoryTest, AllocatesThePagesBesideThoseOfAServer) {
  constexpr int64_t kChunkBytes = 2 * kPageBytes;
  constexpr int64_t kArenaBytes = 2 * kChunkBytes + kPageBytes + 64;
  ParameterTable table;
  table.set_chunk_elements(kChunkBytes / 4);
  ParameterTable::Parameter* const parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(kArenaBytes / 4);
  parameter->set_group(DECAY);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  SynchronousWork work(WorkState::Options{/*steps=*/1, /*evaluates=*/false,
                                          /*evaluate_every=*/1},
                       &layout);
  const int64_t span = RoundUpToPage(kArenaBytes);
  const auto shared = *SharedMemory::Create(2 * span);
  ASSERT_EQ(work.MapChunks(**MappedMemory::Map(shared->offer()), GetParam(),
                           /*servers=*/2),
            absl::OkStatus());
  const std::vector<absl::Span<char>> memory = work.WeightMemory();
  ASSERT_EQ(memory.size(), 2u);
  for (const absl::Span<char> arena : memory) {
    ASSERT_EQ(arena.size(), span);
    std::vector<unsigned char> resident(span / kPageBytes);
    ASSERT_EQ(mincore(arena.data(), span, resident.data()), 0);
    for (int64_t page = 0; page < span / kPageBytes; ++page) {
      const int64_t chunk = page * kPageBytes / kChunkBytes;
      if (chunk % 2 == GetParam()) continue;  // The server's.
      EXPECT_EQ(resident[page] & 1, 1) << "page " << page;
    }
  }
}

TEST(SynchronousWorkMemory, MapsNothingIfThereAreTooManyChunks) {
  const int64_t chunks = MaxMemoryMappings() / 2;
  ParameterTable table;
  table.set_chunk_elements(kPageBytes / 4);
  ParameterTable::Parameter* const parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(chunks * kPageBytes / 4);
  parameter->set_group(DECAY);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  SynchronousWork work(WorkState::Options{/*steps=*/1, /*evaluates=*/false,
                                          /*evaluate_every=*/1},
                       &layout);
  const auto shared = *SharedMemory::Create(2 * chunks * kPageBytes);
  const auto memory = *MappedMemory::Map(shared->offer());
  EXPECT_THAT(work.MapChunks(*memory, /*shard=*/0, /*servers=*/2),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("increase vm.max_map_count")));
  // Mapped memory would be read-only.
  for (const absl::Span<char> arena : work.WeightMemory()) {
    for (int64_t chunk = 0; chunk < chunks; chunk += 100) {
      arena[chunk * kPageBytes] = 1;
    }
  }
  EXPECT_EQ(work.MapChunks(*memory, /*shard=*/0, /*servers=*/1),
            absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Servers, SynchronousWorkMemoryTest,
                         ::testing::Values(0, 1));

// A worker that computes a stage with chunk 1 of a pipeline.
class StageWorkTest : public WorkStateFixture {
 protected:
  StageWorkTest() : WorkStateFixture(/*pieces=*/0) {
    WorkState::Options options{/*steps=*/4, /*evaluates=*/true,
                               /*evaluate_every=*/2};
    ChunkRanges::Message ranges;
    ChunkRange* const range = ranges.Add();
    range->set_begin(1);
    range->set_end(2);
    options.chunks = *ChunkRanges::Create(ranges, kChunks);
    state_ = std::make_unique<SynchronousWork>(options, layout_.get());
  }

  void Assign(int64_t generation, int begin, int end, int64_t first_step,
              int64_t pieces = 0) {
    Deal deal;
    deal.set_generation(generation);
    deal.set_leaf_begin(begin);
    deal.set_leaf_end(end);
    deal.set_piece_end(pieces);
    deal.set_stage_begin(1);
    deal.set_stage_end(2);
    deal.set_first_step(first_step);
    state_->SetAssignment(deal);
  }
  void BeginStage() {
    Arrive(1, 0);
    EXPECT_EQ(state_->Next().kind, Kind::kReportSynced);
    Assign(1, 0, 2, /*first_step=*/0);
  }
  // Computes the next task, which must train this step.
  void Compute(int64_t step) {
    const Task task = state_->Next();
    ASSERT_EQ(task.kind, Kind::kTrain);
    ASSERT_EQ(task.version, step);
    state_->MarkDone(task);
  }
};

TEST_F(StageWorkTest, AVersionIsCompleteWhenItsChunksAre) {
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  BeginStage();
  const Task task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kTrain);
  EXPECT_TRUE(state_->AwaitWeights(task, 16, 32));
  EXPECT_EQ(state_->Weights(0)[16], 1);
  state_->MarkDone(task);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  Arrive(1, 1);
  Compute(1);
}

TEST_F(StageWorkTest, PinsOnlyTheMemoryOfItsChunks) {
  const std::vector<absl::Span<char>> memory = state_->WeightMemory();
  ASSERT_EQ(memory.size(), 2u);
  for (const auto& pages : memory) {
    EXPECT_EQ(pages.size(), static_cast<size_t>(kPageBytes));
  }
}

TEST_F(StageWorkTest, ANewAssignmentRepeatsTheStepsThatAreNotComplete) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Compute(1);
  // A worker of another stage is replaced before chunk 0 has had step 0.
  Assign(2, 0, 4, /*first_step=*/0);
  Compute(0);
  Compute(1);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  // The next replacement comes when step 0 is complete everywhere.
  Assign(3, 0, 2, /*first_step=*/1);
  Compute(1);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
}

TEST_F(StageWorkTest, ANewAssignmentEndsTheTaskUnderWay) {
  BeginStage();
  const Task task = state_->Next();
  EXPECT_FALSE(state_->GivenUp(task));
  Assign(2, 0, 2, /*first_step=*/0);
  EXPECT_TRUE(state_->GivenUp(task));
  state_->MarkDone(task);  // It does not count.
  Compute(0);
}

// Not all workers repeat a step that is complete meanwhile: one that does would
// wait for the others.
TEST_F(StageWorkTest, DoesNotRepeatAStepThatIsCompleteMeanwhile) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Assign(2, 0, 2, /*first_step=*/0);
  const Task task = state_->Next();
  EXPECT_EQ(task.version, 0);
  EXPECT_FALSE(state_->GivenUp(task));
  state_->SetStepComplete(0);
  EXPECT_TRUE(state_->GivenUp(task));
  Compute(1);
}

// Otherwise the worker would begin and give up the step in an endless loop.
TEST_F(StageWorkTest, WaitsForTheWeightsBehindACompleteStep) {
  BeginStage();
  EXPECT_EQ(state_->Next().version, 0);
  state_->SetStepComplete(0);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  Arrive(1, 1);
  Compute(1);
}

TEST_F(StageWorkTest, DoesNotEvaluateAVersionThatItsPeersHaveLeft) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Compute(1);
  Arrive(1, 2);
  Assign(2, 0, 2, /*first_step=*/4, /*pieces=*/2);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
}

TEST_F(StageWorkTest, DoesNotRepeatAStepWhoseWeightsAreOverwritten) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Compute(1);
  Arrive(1, 2);
  Assign(2, 0, 2, /*first_step=*/0);
  state_->SetEvaluated(2);
  Compute(1);
  Compute(2);
}

TEST_F(StageWorkTest, RepeatsAStepBeforeTheEvaluationOfItsVersion) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Compute(1);
  Arrive(1, 2);
  Assign(2, 0, 2, /*first_step=*/1, /*pieces=*/2);
  Compute(1);
  Task task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.version, 2);
  state_->MarkDone(task);
  // All stages are needed again for the pieces, too.
  Assign(3, 0, 2, /*first_step=*/2, /*pieces=*/2);
  task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.items, (std::vector<int64_t>{0, 1}));
}

// After a new assignment, the pieces of some replicas may be complete already,
// while workers of other stages wait for this one.
TEST_F(StageWorkTest, EvaluatesItsPiecesAlthoughTheEvaluationIsComplete) {
  BeginStage();
  Compute(0);
  Arrive(1, 1);
  Compute(1);
  Arrive(1, 2);
  Assign(2, 0, 2, /*first_step=*/2, /*pieces=*/2);
  state_->SetEvaluated(2);
  const Task task = state_->Next();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.items, (std::vector<int64_t>{0, 1}));
  state_->MarkDone(task);
  Compute(2);
}

class FetchingWorkTest : public WorkStateFixture {
 protected:
  FetchingWorkTest() : WorkStateFixture(/*pieces=*/0) {
    WorkState::Options options;
    options.steps = 4;
    options.fetches = true;
    state_ = std::make_unique<SynchronousWork>(options, layout_.get());
  }

  // Delivers the values of a version. Returns false if they are not wanted.
  bool Deliver(int chunk, int64_t version) {
    float* to = nullptr;
    if (!state_->BeginFetched(chunk, version, &to)) return false;
    std::fill_n(to, 16, Value(chunk, version));
    state_->EndFetched(chunk, version);
    return true;
  }
};

TEST_F(FetchingWorkTest, TasksWaitForTheValuesThatTheyHaveRequested) {
  Begin();
  const Task task = state_->Next();
  EXPECT_EQ(task.version, 0);
  EXPECT_FALSE(Deliver(0, 0));
  EXPECT_TRUE(state_->Want(0, 0));
  EXPECT_FALSE(state_->Want(0, 0));  // It is under way.
  std::thread compute([&] { EXPECT_TRUE(state_->AwaitWeights(task, 0, 16)); });
  EXPECT_FALSE(Deliver(0, 1));
  EXPECT_FALSE(Deliver(1, 0));
  EXPECT_TRUE(Deliver(0, 0));
  compute.join();
  EXPECT_EQ(state_->Weights(0)[3], Value(0, 0));
  EXPECT_FALSE(state_->Want(0, 0));  // It is there.
  EXPECT_FALSE(Deliver(0, 0));
  state_->Release(0);
  EXPECT_TRUE(state_->Want(0, 0));
}

TEST_F(FetchingWorkTest, ValuesThatArriveAfterReleaseAreDropped) {
  Begin();
  const Task task = state_->Next();
  EXPECT_TRUE(state_->Want(1, 0));
  float* to = nullptr;
  ASSERT_TRUE(state_->BeginFetched(1, 0, &to));
  state_->Release(1);
  state_->EndFetched(1, 0);
  EXPECT_TRUE(state_->Want(1, 0));
  EXPECT_TRUE(Deliver(1, 0));
  EXPECT_TRUE(state_->AwaitWeights(task, 16, 32));
}

TEST_F(FetchingWorkTest, GivesUpWhenTheStepIsComplete) {
  Begin();
  const Task task = state_->Next();
  EXPECT_TRUE(state_->Want(0, 0));
  ArriveAll(1);
  EXPECT_EQ(Arrive(0, 2), Arrival::kPark);
  EXPECT_FALSE(state_->AwaitWeights(task, 0, 16));
}

// In jobs with tables on two servers.
class TableWorkTest : public WorkStateFixture {
 protected:
  TableWorkTest() : WorkStateFixture(/*pieces=*/0) {
    WorkState::Options options;
    options.steps = 4;
    options.table_servers = 2;
    state_ = std::make_unique<SynchronousWork>(options, layout_.get());
  }
};

TEST_F(TableWorkTest, AVersionIsCompleteWhenAllServersHaveItsRows) {
  ArriveAll(0);
  state_->SetTablesComplete(0, 0);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  state_->SetTablesComplete(1, 0);
  EXPECT_EQ(state_->Next().kind, Kind::kReportSynced);
  SetAssignment(1, 0, 2);
  Task task = state_->Next();
  EXPECT_EQ(task.version, 0);
  state_->MarkDone(task);
  // The weights of step 1 are there, but the second server lacks rows of step
  // 0: those of a worker that was lost, whose micro-batches this one gets.
  ArriveAll(1);
  state_->SetTablesComplete(0, 1);
  SetAssignment(2, 0, 4);
  task = state_->Next();
  EXPECT_EQ(task.version, 0);
  EXPECT_EQ(task.items, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  state_->MarkDone(task);
  state_->SetTablesComplete(1, 1);
  EXPECT_EQ(state_->Next().version, 1);
}

}  // namespace
}  // namespace tributary
