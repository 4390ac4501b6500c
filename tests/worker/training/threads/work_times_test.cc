#include "worker/training/threads/work_times.h"

#include <thread>

#include "gtest/gtest.h"

namespace tributary {
namespace {

class WorkTimesTest : public testing::Test {
 protected:
  // Rounds of `inner_steps`, ten steps in all.
  static Rounds MakeRounds(int inner_steps) {
    JobSpec job;
    auto* const consistency = job.mutable_exchange()
                                  ->mutable_parameter_server()
                                  ->mutable_consistency();
    if (inner_steps > 1) {
      consistency->mutable_local_steps()->set_inner_steps(inner_steps);
    } else {
      consistency->mutable_synchronous();
    }
    return Rounds(job, /*steps=*/10);
  }

  static Task TaskOf(Task::Kind kind, int64_t version) {
    Task task;
    task.kind = kind;
    task.version = version;
    return task;
  }

  void Spend(WorkTimes* times, int thread, Activity activity, int seconds) {
    times->timer(thread)->Switch(activity);
    now_ += absl::Seconds(seconds);
    times->timer(thread)->Switch(Activity::kIdle);
  }

  absl::Time now_ = absl::UnixEpoch();
  const ComputeThreadTimer::Clock clock_ = [this] { return now_; };
};

TEST_F(WorkTimesTest, WaitingCountsForWhatWasBefore) {
  const Rounds rounds = MakeRounds(1);
  WorkTimes times(&rounds, clock_, /*threads=*/1);
  EXPECT_EQ(times.Progress().phase(), "idle");
  // For others to join.
  times.BeginTask(TaskOf(Task::Kind::kTrain, 0), absl::Seconds(100));
  EXPECT_EQ(times.Progress().statistics().exchange_seconds(), 0);
  EXPECT_EQ(times.Progress().phase(), "exchange");
  times.BeginTask(TaskOf(Task::Kind::kEvaluate, 1), absl::Seconds(2));
  EXPECT_EQ(times.Progress().statistics().exchange_seconds(), 2);
  EXPECT_EQ(times.Progress().statistics().evaluation_seconds(), 0);
  // For the others' part of the evaluation.
  times.BeginTask(TaskOf(Task::Kind::kTrain, 1), absl::Seconds(4));
  EXPECT_EQ(times.Progress().statistics().exchange_seconds(), 2);
  EXPECT_EQ(times.Progress().statistics().evaluation_seconds(), 4);
}

TEST_F(WorkTimesTest, DividesTheTimeOfATaskAsThreadsDo) {
  const Rounds rounds = MakeRounds(1);
  WorkTimes times(&rounds, clock_, /*threads=*/3);
  times.BeginTask(TaskOf(Task::Kind::kTrain, 0), absl::ZeroDuration());
  // 16 seconds of compute threads, of which one has had nothing to do.
  Spend(&times, 0, Activity::kData, 1);
  Spend(&times, 0, Activity::kForward, 3);
  Spend(&times, 1, Activity::kBackward, 10);
  Spend(&times, 1, Activity::kExchange, 2);
  times.EndTask(absl::Seconds(8));
  const ProcessStatistics spent = times.Progress().statistics();
  EXPECT_DOUBLE_EQ(spent.data_seconds(), 0.5);
  EXPECT_DOUBLE_EQ(spent.forward_seconds(), 1.5);
  EXPECT_DOUBLE_EQ(spent.backward_seconds(), 5);
  EXPECT_DOUBLE_EQ(spent.compute_seconds(), 6.5);
  EXPECT_DOUBLE_EQ(spent.exchange_seconds(), 1);
  // A task that nobody did anything for takes no time.
  times.EndTask(absl::Seconds(8));
  EXPECT_DOUBLE_EQ(times.Progress().statistics().compute_seconds(), 6.5);
}

TEST_F(WorkTimesTest, CountsTheStepsOfARoundOnce) {
  const Rounds rounds = MakeRounds(4);
  WorkTimes times(&rounds, clock_, /*threads=*/1);
  const auto steps = [&] { return times.Progress().statistics().steps(); };
  times.BeginTask(TaskOf(Task::Kind::kTrain, 0), absl::ZeroDuration());
  EXPECT_EQ(steps(), 4);
  // Micro-batches were assigned anew.
  times.BeginTask(TaskOf(Task::Kind::kTrain, 0), absl::ZeroDuration());
  EXPECT_EQ(steps(), 4);
  times.BeginTask(TaskOf(Task::Kind::kEvaluate, 1), absl::ZeroDuration());
  EXPECT_EQ(steps(), 4);
  EXPECT_EQ(times.Progress().step(), 4);
  times.BeginTask(TaskOf(Task::Kind::kTrain, 1), absl::ZeroDuration());
  // The last one has two.
  times.BeginTask(TaskOf(Task::Kind::kTrain, 2), absl::ZeroDuration());
  EXPECT_EQ(steps(), 10);
  EXPECT_EQ(times.Progress().step(), 8);
}

TEST_F(WorkTimesTest, TheProcessDoesWhatMostOfItsBusyThreadsDo) {
  const Rounds rounds = MakeRounds(1);
  WorkTimes times(&rounds, clock_, /*threads=*/5);
  times.BeginTask(TaskOf(Task::Kind::kTrain, 0), absl::ZeroDuration());
  times.timer(0)->Switch(Activity::kForward);
  times.timer(1)->Switch(Activity::kBackward);
  times.timer(2)->Switch(Activity::kBackward);
  EXPECT_EQ(times.Progress().phase(), "backward");
}

TEST_F(WorkTimesTest, CountsMicroBatchesFromAnyThread) {
  const Rounds rounds = MakeRounds(1);
  WorkTimes times(&rounds, clock_, /*threads=*/2);
  const auto count = [&] {
    for (int i = 0; i < 500; ++i) {
      times.CountMicroBatch(absl::Milliseconds(250), 0.125);
    }
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(times.Progress().statistics().leaves(), 1000);
  EXPECT_DOUBLE_EQ(times.Progress().statistics().leaf_seconds(), 250);
  EXPECT_DOUBLE_EQ(times.Progress().statistics().leaf_cpu_seconds(), 125);
}

}  // namespace
}  // namespace tributary
