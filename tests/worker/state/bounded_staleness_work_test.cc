// The work of modes stale_synchronous and asynchronous.
#include "worker/state/bounded_staleness_work.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/state/work_state_fixture.h"
#include "worker/state/asynchronous_work.h"
#include "worker/state/stale_synchronous_work.h"

namespace tributary {
namespace {

using Kind = Task::Kind;
using Arrival = WorkState::Arrival;

// Eight steps, evaluation after every fourth.
class BoundedStalenessWorkTest : public WorkStateFixture {
 protected:
  BoundedStalenessWorkTest() : WorkStateFixture(/*pieces=*/1) {}

  WorkState::Options Options() const {
    return {/*steps=*/8, /*evaluates=*/true, /*evaluate_every=*/4};
  }

  void MakeStale(int64_t staleness, double patience = 0) {
    StaleSynchronousSpec spec;
    spec.set_staleness(staleness);
    spec.set_patience(patience);
    state_ =
        std::make_unique<StaleSynchronousWork>(Options(), spec, layout_.get());
    Begin();
  }
  void MakeAsynchronous() {
    state_ = std::make_unique<AsynchronousWork>(Options(), /*micro_batches=*/4,
                                                layout_.get());
    Begin();
  }

  float Read(int chunk) const { return state_->Weights(0)[16 * chunk]; }

  std::vector<int64_t> BaseVersions() const {
    return {state_->BaseVersion(0), state_->BaseVersion(1),
            state_->BaseVersion(2)};
  }

  void ExpectStepRequests() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(state_->Next().kind, Kind::kRequestStepLease);
    }
  }

  Task Train(int64_t step) {
    const Task task = state_->Next();
    EXPECT_EQ(task.kind, Kind::kTrain);
    EXPECT_EQ(task.version, step);
    EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
    return task;
  }
  void TrainAndMark(int64_t step) { state_->MarkDone(Train(step)); }

  void Answer(int64_t step, int chunk, bool refused = false) {
    Outcome outcome;
    outcome.set_step(step);
    outcome.set_chunk(chunk);
    outcome.set_refused(refused);
    state_->SetOutcome(outcome);
  }
  void AnswerAll(int64_t step) {
    for (int chunk = 0; chunk < kChunks; ++chunk) Answer(step, chunk);
  }
};

TEST_F(BoundedStalenessWorkTest, ComputesFromTheNewestVersionOfEachChunk) {
  MakeStale(3);
  TrainAndMark(0);
  Arrive(1, 1);
  Arrive(1, 2);
  Arrive(2, 1);
  EXPECT_EQ(Arrive(1, 1), Arrival::kDrop);
  EXPECT_EQ(Read(1), Value(1, 0));  // Not before the next task.
  Train(1);
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(Read(0), Value(0, 0));
  EXPECT_EQ(Read(1), Value(1, 2));
  EXPECT_EQ(Read(2), Value(2, 1));
  // What comes while it computes changes nothing under its hands.
  EXPECT_EQ(Arrive(0, 1), Arrival::kWrite);
  EXPECT_EQ(Read(0), Value(0, 0));
}

TEST_F(BoundedStalenessWorkTest, TakesWhatIsThereWhenTheTaskComesToTheChunk) {
  MakeStale(3);
  TrainAndMark(0);
  const Task task = state_->Next();
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 16));
  ArriveAll(1);
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 1, 1}));
  // Another compute thread, or backward.
  Arrive(0, 2);
  Arrive(1, 2);
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 1, 1}));
}

TEST_F(BoundedStalenessWorkTest,
       StaleWaitsForTheNewestWeightsAsLongAsItHasPatience) {
  MakeStale(3, /*patience=*/1e12);
  TrainAndMark(0);
  std::thread late([this] { ArriveAll(1); });
  TrainAndMark(1);
  late.join();
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{1, 1, 1}));
  // With little of it, it goes on alone.
  MakeStale(3, /*patience=*/1e-3);
  for (const int64_t step : {0, 1, 2, 3}) TrainAndMark(step);
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 0, 0}));
}

TEST_F(BoundedStalenessWorkTest, StaleRunsAheadOfTheOldestChunkAndNoFurther) {
  MakeStale(2);
  for (const int64_t step : {0, 1, 2}) TrainAndMark(step);
  // All chunks but one have two more steps: still nothing to do.
  Arrive(0, 1);
  Arrive(1, 1);
  Arrive(0, 2);
  std::thread late([this] { Arrive(2, 1); });
  TrainAndMark(3);
  late.join();
}

TEST_F(BoundedStalenessWorkTest, StaleWaitsForEvaluationAtOneVersion) {
  MakeStale(3);
  for (const int64_t step : {0, 1, 2, 3}) TrainAndMark(step);
  for (const int64_t version : {1, 2, 3}) ArriveAll(version);
  // Steps 4 to 6 would be near enough, but not before the evaluation.
  Arrive(0, 4);
  Arrive(1, 4);
  std::thread late([this] { Arrive(2, 4); });
  const Task task = state_->Next();
  late.join();
  EXPECT_EQ(task.kind, Kind::kEvaluate);
  EXPECT_EQ(task.version, 4);
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_EQ(Read(chunk), Value(chunk, 4));
  }
  state_->MarkDone(task);
  std::thread evaluated([this] { state_->SetEvaluated(4); });
  TrainAndMark(4);
  evaluated.join();
}

TEST_F(BoundedStalenessWorkTest,
       StaleComputesReassignedMicroBatchesInEveryOpenStep) {
  MakeStale(1);
  SetAssignment(2, 0, 2);
  TrainAndMark(0);
  TrainAndMark(1);
  SetAssignment(3, 0, 4);
  Task task = Train(0);
  EXPECT_EQ(task.items, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(state_->GivenUp(task));
  state_->MarkDone(task);
  task = Train(1);
  EXPECT_EQ(task.items, (std::vector<int64_t>{2, 3}));
  // Others were faster: the step is complete everywhere.
  ArriveAll(1);
  EXPECT_FALSE(state_->GivenUp(task));
  ArriveAll(2);
  EXPECT_TRUE(state_->GivenUp(task));
}

TEST_F(BoundedStalenessWorkTest,
       AsynchronousHoldsThreeStepLeasesAndComputesWholeBatches) {
  MakeAsynchronous();
  ExpectStepRequests();
  state_->AddStepLease(5);
  Task task = Train(5);
  EXPECT_EQ(task.items, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(task.next_step, -1);
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 0, 0}));
  state_->MarkDone(task);
  state_->AddStepLease(7);
  state_->AddStepLease(8);
  task = state_->Next();
  EXPECT_EQ(task.version, 7);
  EXPECT_EQ(task.next_step, 8);
  Answer(5, 2);
  Answer(5, 0);
  // Another step lease is worth a request only when all chunks have the step.
  std::thread late([this] { Answer(5, 1); });
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  late.join();
  state_->MarkDone(task);
  EXPECT_EQ(state_->Next().kind, Kind::kRequestStepLease);
}

TEST_F(BoundedStalenessWorkTest,
       AsynchronousTakesWeightsThatHaveItsOwnGradients) {
  MakeAsynchronous();
  ExpectStepRequests();
  for (const int64_t step : {0, 1, 2}) state_->AddStepLease(step);
  TrainAndMark(0);
  const Task task = state_->Next();
  std::thread late([this] {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      Arrive(chunk, chunk + 1);
      Answer(0, chunk);
    }
  });
  EXPECT_TRUE(state_->AwaitWeights(task, 0, 48));
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{1, 2, 3}));
  late.join();
}

TEST_F(BoundedStalenessWorkTest,
       AsynchronousComputesARefusedStepAgainFromNewerWeights) {
  MakeAsynchronous();
  ExpectStepRequests();
  state_->AddStepLease(2);
  state_->AddStepLease(3);
  Task task = Train(2);
  EXPECT_EQ(task.next_step, 3);
  // Answers may come before the trainer says that it is done.
  Answer(2, 0);
  Answer(2, 1, /*refused=*/true);
  Answer(2, 2);
  state_->MarkDone(task);
  Arrive(1, 6);
  task = Train(2);
  EXPECT_EQ(BaseVersions(), (std::vector<int64_t>{0, 6, 0}));
  EXPECT_EQ(task.items.size(), 4u);
  state_->MarkDone(task);
  AnswerAll(2);
  EXPECT_EQ(state_->Next().kind, Kind::kRequestStepLease);
  TrainAndMark(3);
}

// A worker was lost after all chunks, but not all rows, of its step had
// arrived.
TEST_F(BoundedStalenessWorkTest,
       AsynchronousComputesAStepWhoseRowsAreMissingBeforeItEvaluates) {
  WorkState::Options options = Options();
  options.table_servers = 2;
  state_ = std::make_unique<AsynchronousWork>(options, /*micro_batches=*/4,
                                              layout_.get());
  for (const int server : {0, 1}) state_->SetTablesComplete(server, 0);
  Begin();
  ExpectStepRequests();
  ArriveAll(4);
  state_->SetTablesComplete(0, 4);
  state_->SetTablesComplete(1, 3);
  EXPECT_FALSE(state_->TryNextForTest().has_value());
  state_->AddStepLease(3);
  TrainAndMark(3);
  AnswerAll(3);
  state_->SetTablesComplete(1, 4);
  std::optional<Task> task = state_->TryNextForTest();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->kind, Kind::kEvaluate);
  EXPECT_EQ(task->version, 4);
}

TEST_F(BoundedStalenessWorkTest, FailureEndsWaitsAndTasks) {
  MakeAsynchronous();
  ExpectStepRequests();
  state_->AddStepLease(0);
  const Task task = Train(0);
  state_->Fail(absl::UnavailableError("gone"));
  EXPECT_TRUE(state_->GivenUp(task));
  EXPECT_FALSE(state_->AwaitWeights(task, 0, 1));
  EXPECT_EQ(state_->Next().kind, Kind::kFail);
}

// Writers on three threads, as from three servers, while the trainer takes
// over: every chunk it reads is of one version.
TEST_F(BoundedStalenessWorkTest, NeverMixesVersionsWithinAChunk) {
  constexpr int64_t kVersions = 2000;
  WorkState::Options options = Options();
  options.steps = kVersions + 1;
  options.evaluates = false;
  StaleSynchronousSpec spec;
  spec.set_staleness(1);
  spec.set_patience(0);
  state_ = std::make_unique<StaleSynchronousWork>(options, spec, layout_.get());
  Begin();
  std::vector<std::thread> writers;
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    writers.emplace_back([&, chunk] {
      for (int64_t version = 1; version <= kVersions; ++version) {
        float* to = nullptr;
        Arrival arrival = Arrival::kPark;
        while (arrival == Arrival::kPark) {
          arrival = state_->BeginWrite(chunk, version, &to);
          if (arrival == Arrival::kPark) std::this_thread::yield();
        }
        ASSERT_EQ(arrival, Arrival::kWrite);
        std::fill_n(to, 16, Value(chunk, version));
        state_->EndWrite(chunk, version);
      }
    });
  }
  int64_t newest = 0;
  while (newest < kVersions) {
    const Task task = state_->Next();
    EXPECT_EQ(task.kind, Kind::kTrain);
    newest = task.version;
    if (!state_->AwaitWeights(task, 0, 48)) continue;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const float* values = state_->Weights(0) + 16 * chunk;
      for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(values[i], Value(chunk, state_->BaseVersion(chunk)));
      }
    }
    state_->MarkDone(task);
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace tributary
