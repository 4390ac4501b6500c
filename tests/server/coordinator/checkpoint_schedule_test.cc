#include "server/coordinator/checkpoint_schedule.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using Schedule = CheckpointSchedule;

SnapshotReport Report(int64_t version, SnapshotReport::Outcome outcome,
                      const std::string& text = "") {
  SnapshotReport report;
  report.set_version(version);
  report.set_outcome(outcome);
  if (outcome == SnapshotReport::WRITTEN) report.add_file()->set_name(text);
  if (outcome == SnapshotReport::FAILED) report.set_message(text);
  return report;
}

// Two servers, a checkpoint every 10 of 25 versions.
class CheckpointScheduleTest : public testing::Test {
 protected:
  template <typename Action>
  Action Expect(int64_t completed, int64_t earliest = 0) {
    const auto action = schedule_.Next(completed, earliest, computed_, now_);
    EXPECT_TRUE(action.has_value());
    if (!action.has_value()) return Action();
    EXPECT_TRUE(std::holds_alternative<Action>(*action)) << action->index();
    if (!std::holds_alternative<Action>(*action)) return Action();
    return std::get<Action>(*action);
  }
  void ExpectNothing(int64_t completed, int64_t earliest = 0) {
    EXPECT_FALSE(
        schedule_.Next(completed, earliest, computed_, now_).has_value());
  }
  // Up to the order to the servers.
  int64_t Order(int64_t completed, int64_t earliest = 0) {
    const int64_t version =
        Expect<Schedule::MakeFolder>(completed, earliest).version;
    ExpectNothing(completed);
    schedule_.OnFolder(std::string("folder"));
    const auto order = Expect<Schedule::OrderSnapshots>(completed);
    EXPECT_EQ(order.version, version);
    EXPECT_EQ(order.folder, "folder");
    ExpectNothing(completed);
    return version;
  }
  void Answer(int64_t version, SnapshotReport::Outcome outcome,
              const std::string& text = "") {
    schedule_.OnReport(0, Report(version, outcome, text));
    schedule_.OnReport(1, Report(version, outcome, text));
  }
  void Complete(int64_t version) {
    Answer(version, SnapshotReport::TAKEN);
    Answer(version, SnapshotReport::WRITTEN, "f");
    EXPECT_EQ(Expect<Schedule::Commit>(version).version, version);
    schedule_.OnCommitted(absl::OkStatus());
    EXPECT_EQ(schedule_.committed(), version);
  }

  bool computed_ = true;
  absl::Time now_ = absl::UnixEpoch();
  Schedule schedule_{{/*every=*/10, /*last=*/25, /*servers=*/2, /*first=*/0}};
};

TEST_F(CheckpointScheduleTest, TakesTheMultiplesAndTheLast) {
  EXPECT_EQ(Order(0), 10);
  Complete(10);
  EXPECT_EQ(Order(11), 20);
  Complete(20);
  EXPECT_EQ(Order(20), 25);
  EXPECT_FALSE(schedule_.over());
  Complete(25);
  ExpectNothing(25);
  EXPECT_TRUE(schedule_.over());
}

// So that the last checkpoint has the last evaluation.
TEST_F(CheckpointScheduleTest, CommitsTheLastWhenAllIsComputed) {
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  computed_ = false;
  ExpectNothing(25);
  EXPECT_FALSE(schedule_.over());
  computed_ = true;
  EXPECT_EQ(Expect<Schedule::Commit>(25).version, 25);
}

TEST_F(CheckpointScheduleTest, CommitsWhenAllServersHaveWritten) {
  EXPECT_EQ(Order(0), 10);
  schedule_.OnReport(0, Report(10, SnapshotReport::TAKEN));
  EXPECT_FALSE(schedule_.taken());
  schedule_.OnReport(1, Report(10, SnapshotReport::TAKEN));
  EXPECT_TRUE(schedule_.taken());
  schedule_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  // Said twice, and of a version that nobody asked for.
  schedule_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  schedule_.OnReport(0, Report(9, SnapshotReport::WRITTEN, "x"));
  ExpectNothing(12);
  schedule_.OnReport(0, Report(10, SnapshotReport::WRITTEN, "a"));
  const auto commit = Expect<Schedule::Commit>(12);
  ASSERT_EQ(commit.files.size(), 2u);
  EXPECT_EQ(commit.files[0].name(), "a");
  EXPECT_EQ(commit.files[1].name(), "b");
  EXPECT_EQ(commit.folder, "folder");
}

TEST_F(CheckpointScheduleTest, TriesLaterWhereAServerWasPast) {
  EXPECT_EQ(Order(7), 10);
  schedule_.OnReport(0, Report(10, SnapshotReport::WRITTEN, "a"));
  schedule_.OnReport(1, Report(10, SnapshotReport::PASSED));
  EXPECT_EQ(Expect<Schedule::Discard>(10).folder, "folder");
  // Not one that is as near as the one that was missed.
  EXPECT_EQ(Order(17), 25);
  EXPECT_EQ(schedule_.failures(), 0);
}

TEST_F(CheckpointScheduleTest, WarnsOnceUntilOneSucceeds) {
  EXPECT_EQ(Order(0), 10);
  schedule_.OnReport(0, Report(10, SnapshotReport::FAILED, "disk full"));
  schedule_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  EXPECT_EQ(Expect<Schedule::Discard>(10).folder, "folder");
  EXPECT_EQ(Expect<Schedule::Warn>(10).message, "server 0: disk full");
  EXPECT_EQ(Expect<Schedule::MakeFolder>(10).version, 20);
  schedule_.OnFolder(absl::UnavailableError("disk full"));
  EXPECT_EQ(schedule_.failures(), 2);
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  Expect<Schedule::Commit>(25);
  schedule_.OnCommitted(absl::UnavailableError("disk full"));
  Expect<Schedule::Discard>(25);
  ExpectNothing(25);
  EXPECT_TRUE(schedule_.over());
  EXPECT_EQ(schedule_.committed(), 0);
  EXPECT_EQ(schedule_.failures(), 3);
  EXPECT_EQ(schedule_.failure(), "disk full");
}

TEST_F(CheckpointScheduleTest, ADrainDoesNotWaitForAMultiple) {
  EXPECT_EQ(Order(0), 10);
  schedule_.Drain();
  Expect<Schedule::Discard>(1);
  const int64_t soon = Order(1);
  EXPECT_EQ(soon, 3);
  Complete(soon);
  ExpectNothing(soon);
  EXPECT_TRUE(schedule_.over());
}

TEST_F(CheckpointScheduleTest, ADrainDoesNotWaitForAServerWithoutChunks) {
  Schedule::Options options{/*every=*/10, /*last=*/25, /*servers=*/2,
                            /*first=*/0};
  options.holders = 1;
  schedule_ = Schedule(options);
  EXPECT_EQ(Order(0), 10);
  schedule_.OnReport(1, Report(10, SnapshotReport::TAKEN));
  schedule_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "f"));
  schedule_.Drain();
  Expect<Schedule::Discard>(1);
  const int64_t soon = Order(1);
  EXPECT_EQ(soon, 3);
  Complete(soon);
  ExpectNothing(soon);
  EXPECT_TRUE(schedule_.over());
}

TEST_F(CheckpointScheduleTest, OneThatIsWantedSoonIsNotTheLast) {
  EXPECT_EQ(Order(0), 10);
  schedule_.TakeSoon();
  Expect<Schedule::Discard>(1);
  const int64_t soon = Order(1);
  EXPECT_EQ(soon, 3);
  EXPECT_TRUE(schedule_.soon());
  Complete(soon);
  EXPECT_FALSE(schedule_.soon());
  EXPECT_FALSE(schedule_.over());
  EXPECT_EQ(Expect<Schedule::MakeFolder>(4).version, 10);
}

// It waited for a version that nobody was there to compute.
TEST_F(CheckpointScheduleTest, ADrainAtRestTakesTheVersionThatIsThere) {
  EXPECT_EQ(Order(4), 10);
  schedule_.Drain();
  schedule_.OnIdle(/*completed=*/4, /*earliest=*/0);
  EXPECT_EQ(Expect<Schedule::Discard>(4).folder, "folder");
  EXPECT_EQ(Order(4), 4);
  schedule_.OnIdle(4, 0);  // The answers are on their way.
  EXPECT_FALSE(schedule_.over());
  Complete(4);
  EXPECT_TRUE(schedule_.over());
}

TEST_F(CheckpointScheduleTest, ADrainAtRestIsDoneWhereAllIsCommitted) {
  EXPECT_EQ(Order(8), 10);
  Complete(10);
  schedule_.Drain();
  schedule_.OnIdle(10, 0);
  ExpectNothing(10);
  EXPECT_TRUE(schedule_.over());
  EXPECT_EQ(schedule_.failures(), 0);
}

// It may be writing the version yet, or be past it for good.
TEST_F(CheckpointScheduleTest,
       AtRestAServerThatSeemsPastIsAskedAgainButNotForever) {
  schedule_.Drain();
  for (int i = 0; i < 20; ++i) {
    schedule_.OnIdle(4, 0);
    EXPECT_EQ(Order(4), 4);
    Answer(4, SnapshotReport::PASSED);
    EXPECT_EQ(Expect<Schedule::Discard>(4).folder, "folder");
    ExpectNothing(4);  // Until OnIdle is called again.
  }
  EXPECT_FALSE(schedule_.over());
  schedule_.OnIdle(4, 0);
  EXPECT_THAT(Expect<Schedule::Warn>(4).message,
              testing::HasSubstr("left in the middle of the next step"));
  EXPECT_TRUE(schedule_.over());
  EXPECT_EQ(schedule_.committed(), 0);
}

TEST_F(CheckpointScheduleTest, AtRestNothingIsTakenOfStepsThatAreHalfDone) {
  // Asynchronous: steps from 6 on are not leased.
  schedule_.Drain();
  schedule_.OnIdle(/*completed=*/4, /*earliest=*/6);
  Expect<Schedule::Warn>(4, 6);
  EXPECT_TRUE(schedule_.over());
}

// Nobody is left to evaluate it, and the weights must not be lost.
TEST_F(CheckpointScheduleTest, AtRestTheLastVersionIsKeptWithoutItsEvaluation) {
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  computed_ = false;
  schedule_.Drain();
  ExpectNothing(25);
  schedule_.OnIdle(25, 0);
  EXPECT_EQ(Expect<Schedule::Commit>(25).version, 25);
  schedule_.OnCommitted(absl::OkStatus());
  EXPECT_TRUE(schedule_.over());
  EXPECT_EQ(schedule_.committed(), 25);
}

TEST_F(CheckpointScheduleTest, GoesOnAsUsualWhereWorkersComeBack) {
  schedule_.Drain();
  schedule_.OnIdle(4, 0);
  EXPECT_EQ(Order(4), 4);
  Answer(4, SnapshotReport::PASSED);
  Expect<Schedule::Discard>(4);
  EXPECT_GT(Order(5), 5);
}

TEST_F(CheckpointScheduleTest, ADrainEndsWithOneThatFailed) {
  schedule_.Drain();
  const int64_t soon = Order(3);
  Answer(soon, SnapshotReport::FAILED, "no");
  Expect<Schedule::Discard>(soon);
  Expect<Schedule::Warn>(soon);
  ExpectNothing(soon);
  EXPECT_TRUE(schedule_.over());
}

// Asynchronous mode: steps beyond may have been given out already.
TEST_F(CheckpointScheduleTest, ChoosesNoVersionBeforeTheEarliest) {
  EXPECT_EQ(Order(2, /*earliest=*/14), 20);
}

// Two servers, a checkpoint every ten seconds, and none because of its number.
class CheckpointScheduleTimeTest : public CheckpointScheduleTest {
 protected:
  CheckpointScheduleTimeTest() {
    schedule_ = Schedule({/*every=*/0, /*last=*/1000, /*servers=*/2,
                          /*first=*/0, /*interval=*/absl::Seconds(10)});
    // The last one waits until time is up.
    EXPECT_EQ(Order(0), 1000);
  }
  // Drops the order of the last one, and gives one of a sooner version.
  int64_t OrderSoon(int64_t completed) {
    EXPECT_EQ(Expect<Schedule::Discard>(completed).folder, "folder");
    return Order(completed);
  }
};

TEST_F(CheckpointScheduleTimeTest, TakesOneWhenTheTimeIsUp) {
  now_ += absl::Seconds(9);
  ExpectNothing(8);
  now_ += absl::Seconds(1);
  EXPECT_EQ(OrderSoon(9), 11);
  Complete(11);
  // The time is measured from the commit.
  EXPECT_EQ(Order(11), 1000);
  now_ += absl::Seconds(9);
  ExpectNothing(20);
  now_ += absl::Seconds(1);
  EXPECT_EQ(OrderSoon(21), 23);
  Complete(23);
  EXPECT_FALSE(schedule_.over());
}

TEST_F(CheckpointScheduleTimeTest, LeavesOneAloneThatComesAsSoon) {
  now_ += absl::Seconds(10);
  ExpectNothing(998);
  Complete(1000);
  EXPECT_TRUE(schedule_.over());
}

TEST_F(CheckpointScheduleTimeTest, WaitsLongerAfterOneThatTookLong) {
  now_ += absl::Seconds(10);
  const int64_t version = OrderSoon(1);
  now_ += absl::Minutes(5);  // A slow step is not a slow disk.
  Answer(version, SnapshotReport::TAKEN);
  ExpectNothing(version);
  now_ += absl::Seconds(3);
  Answer(version, SnapshotReport::WRITTEN, "f");
  Expect<Schedule::Commit>(version);
  schedule_.OnCommitted(absl::OkStatus());
  EXPECT_EQ(Order(version), 1000);
  now_ += Schedule::kRest * absl::Seconds(3) - absl::Seconds(1);
  ExpectNothing(50);
  now_ += absl::Seconds(1);
  EXPECT_EQ(OrderSoon(51), 53);
}

TEST_F(CheckpointScheduleTimeTest, TriesAgainAfterTheTimeWhereOneFailed) {
  now_ += absl::Seconds(10);
  const int64_t version = OrderSoon(1);
  Answer(version, SnapshotReport::FAILED, "disk full");
  Expect<Schedule::Discard>(version);
  Expect<Schedule::Warn>(version);
  EXPECT_EQ(Order(version), 1000);
  now_ += absl::Seconds(10);
  EXPECT_EQ(OrderSoon(50), 52);
  EXPECT_EQ(schedule_.failures(), 1);
}

// Without workers there is nothing new to keep, and no reason to warn.
TEST_F(CheckpointScheduleTimeTest, DoesNothingAtRest) {
  now_ += absl::Seconds(10);
  const int64_t version = OrderSoon(1);
  schedule_.OnIdle(/*completed=*/1, /*earliest=*/0);
  ExpectNothing(1);
  Complete(version);
  EXPECT_EQ(schedule_.failures(), 0);
}

TEST_F(CheckpointScheduleTimeTest, ADrainAtRestTakesTheVersionThatIsThere) {
  now_ += absl::Seconds(10);
  OrderSoon(1);
  schedule_.Drain();
  schedule_.OnIdle(/*completed=*/1, /*earliest=*/0);
  Expect<Schedule::Discard>(1);
  EXPECT_EQ(Order(1), 1);
  Complete(1);
  EXPECT_TRUE(schedule_.over());
}

TEST(CheckpointScheduleBothTest, TakesWhatComesFirst) {
  Schedule schedule({/*every=*/10, /*last=*/25, /*servers=*/1, /*first=*/0,
                     /*interval=*/absl::Seconds(10)});
  const absl::Time start = absl::UnixEpoch();
  const auto first = schedule.Next(0, 0, true, start);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(std::get<Schedule::MakeFolder>(*first).version, 10);
  schedule.OnFolder(std::string("folder"));
  ASSERT_TRUE(schedule.Next(0, 0, true, start).has_value());
  const absl::Time up = start + absl::Seconds(10);
  ASSERT_TRUE(schedule.Next(3, 0, true, up).has_value());
  const auto sooner = schedule.Next(3, 0, true, up);
  ASSERT_TRUE(sooner.has_value());
  EXPECT_EQ(std::get<Schedule::MakeFolder>(*sooner).version, 5);
}

TEST(CheckpointScheduleOffTest, DoesNothing) {
  Schedule schedule({/*every=*/0, /*last=*/25, /*servers=*/1, /*first=*/0});
  EXPECT_TRUE(schedule.over());
  schedule.TakeSoon();
  EXPECT_FALSE(schedule.soon());
  schedule.Drain();
  EXPECT_FALSE(schedule.Next(25, 0, true, absl::UnixEpoch()).has_value());
}

TEST(CheckpointScheduleOffTest, GoesOnFromACheckpoint) {
  Schedule schedule({/*every=*/10, /*last=*/25, /*servers=*/1, /*first=*/20});
  EXPECT_EQ(schedule.committed(), 20);
  const auto action = schedule.Next(20, 0, true, absl::UnixEpoch());
  ASSERT_TRUE(action.has_value());
  EXPECT_EQ(std::get<Schedule::MakeFolder>(*action).version, 25);
  Schedule done({/*every=*/10, /*last=*/25, /*servers=*/1, /*first=*/25});
  EXPECT_TRUE(done.over());
}

}  // namespace
}  // namespace tributary
