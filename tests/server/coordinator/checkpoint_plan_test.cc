#include "server/coordinator/checkpoint_plan.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using Plan = CheckpointPlan;

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
class CheckpointPlanTest : public testing::Test {
 protected:
  template <typename Action>
  Action Expect(int64_t completed, int64_t earliest = 0) {
    const auto action = plan_.Next(completed, earliest, computed_);
    EXPECT_TRUE(action.has_value());
    if (!action.has_value()) return Action();
    EXPECT_TRUE(std::holds_alternative<Action>(*action)) << action->index();
    if (!std::holds_alternative<Action>(*action)) return Action();
    return std::get<Action>(*action);
  }
  void ExpectNothing(int64_t completed, int64_t earliest = 0) {
    EXPECT_FALSE(plan_.Next(completed, earliest, computed_).has_value());
  }
  // Up to the order to the servers.
  int64_t Order(int64_t completed, int64_t earliest = 0) {
    const int64_t version =
        Expect<Plan::MakeFolder>(completed, earliest).version;
    ExpectNothing(completed);
    plan_.OnFolder(std::string("folder"));
    const auto order = Expect<Plan::OrderSnapshots>(completed);
    EXPECT_EQ(order.version, version);
    EXPECT_EQ(order.folder, "folder");
    ExpectNothing(completed);
    return version;
  }
  void Answer(int64_t version, SnapshotReport::Outcome outcome,
              const std::string& text = "") {
    plan_.OnReport(0, Report(version, outcome, text));
    plan_.OnReport(1, Report(version, outcome, text));
  }
  void Complete(int64_t version) {
    Answer(version, SnapshotReport::TAKEN);
    Answer(version, SnapshotReport::WRITTEN, "f");
    EXPECT_EQ(Expect<Plan::Commit>(version).version, version);
    plan_.OnCommitted(absl::OkStatus());
    EXPECT_EQ(plan_.committed(), version);
  }

  bool computed_ = true;
  Plan plan_{{/*every=*/10, /*last=*/25, /*servers=*/2, /*first=*/0}};
};

TEST_F(CheckpointPlanTest, TakesTheMultiplesAndTheLast) {
  EXPECT_EQ(Order(0), 10);
  Complete(10);
  EXPECT_EQ(Order(11), 20);
  Complete(20);
  EXPECT_EQ(Order(20), 25);
  EXPECT_FALSE(plan_.over());
  Complete(25);
  ExpectNothing(25);
  EXPECT_TRUE(plan_.over());
}

// So that the last checkpoint has the last evaluation.
TEST_F(CheckpointPlanTest, CommitsTheLastWhenAllIsComputed) {
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  computed_ = false;
  ExpectNothing(25);
  EXPECT_FALSE(plan_.over());
  computed_ = true;
  EXPECT_EQ(Expect<Plan::Commit>(25).version, 25);
}

TEST_F(CheckpointPlanTest, CommitsWhenAllServersHaveWritten) {
  EXPECT_EQ(Order(0), 10);
  plan_.OnReport(0, Report(10, SnapshotReport::TAKEN));
  EXPECT_FALSE(plan_.taken());
  plan_.OnReport(1, Report(10, SnapshotReport::TAKEN));
  EXPECT_TRUE(plan_.taken());
  plan_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  // Said twice, and of a version that nobody asked for.
  plan_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  plan_.OnReport(0, Report(9, SnapshotReport::WRITTEN, "x"));
  ExpectNothing(12);
  plan_.OnReport(0, Report(10, SnapshotReport::WRITTEN, "a"));
  const auto commit = Expect<Plan::Commit>(12);
  ASSERT_EQ(commit.files.size(), 2u);
  EXPECT_EQ(commit.files[0].name(), "a");
  EXPECT_EQ(commit.files[1].name(), "b");
  EXPECT_EQ(commit.folder, "folder");
}

TEST_F(CheckpointPlanTest, TriesLaterWhereAServerWasPast) {
  EXPECT_EQ(Order(7), 10);
  plan_.OnReport(0, Report(10, SnapshotReport::WRITTEN, "a"));
  plan_.OnReport(1, Report(10, SnapshotReport::PASSED));
  EXPECT_EQ(Expect<Plan::Discard>(10).folder, "folder");
  // Not one that is as near as the one that was missed.
  EXPECT_EQ(Order(17), 25);
  EXPECT_EQ(plan_.failures(), 0);
}

TEST_F(CheckpointPlanTest, WarnsOnceUntilOneSucceeds) {
  EXPECT_EQ(Order(0), 10);
  plan_.OnReport(0, Report(10, SnapshotReport::FAILED, "disk full"));
  plan_.OnReport(1, Report(10, SnapshotReport::WRITTEN, "b"));
  EXPECT_EQ(Expect<Plan::Discard>(10).folder, "folder");
  EXPECT_EQ(Expect<Plan::Warn>(10).message, "server 0: disk full");
  EXPECT_EQ(Expect<Plan::MakeFolder>(10).version, 20);
  plan_.OnFolder(absl::UnavailableError("disk full"));
  EXPECT_EQ(plan_.failures(), 2);
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  Expect<Plan::Commit>(25);
  plan_.OnCommitted(absl::UnavailableError("disk full"));
  Expect<Plan::Discard>(25);
  ExpectNothing(25);
  EXPECT_TRUE(plan_.over());
  EXPECT_EQ(plan_.committed(), 0);
  EXPECT_EQ(plan_.failures(), 3);
  EXPECT_EQ(plan_.failure(), "disk full");
}

TEST_F(CheckpointPlanTest, ADrainDoesNotWaitForAMultiple) {
  EXPECT_EQ(Order(0), 10);
  plan_.Drain();
  Expect<Plan::Discard>(1);
  const int64_t soon = Order(1);
  EXPECT_EQ(soon, 3);
  Complete(soon);
  ExpectNothing(soon);
  EXPECT_TRUE(plan_.over());
}

TEST_F(CheckpointPlanTest, OneThatIsWantedSoonIsNotTheLast) {
  EXPECT_EQ(Order(0), 10);
  plan_.TakeSoon();
  Expect<Plan::Discard>(1);
  const int64_t soon = Order(1);
  EXPECT_EQ(soon, 3);
  EXPECT_TRUE(plan_.soon());
  Complete(soon);
  EXPECT_FALSE(plan_.soon());
  EXPECT_FALSE(plan_.over());
  EXPECT_EQ(Expect<Plan::MakeFolder>(4).version, 10);
}

// It waited for a version that nobody was there to compute.
TEST_F(CheckpointPlanTest, ADrainAtRestTakesTheVersionThatIsThere) {
  EXPECT_EQ(Order(4), 10);
  plan_.Drain();
  plan_.Rest(/*completed=*/4, /*earliest=*/0, computed_);
  EXPECT_EQ(Expect<Plan::Discard>(4).folder, "folder");
  EXPECT_EQ(Order(4), 4);
  plan_.Rest(4, 0, computed_);  // The answers are on their way.
  EXPECT_FALSE(plan_.over());
  Complete(4);
  EXPECT_TRUE(plan_.over());
}

TEST_F(CheckpointPlanTest, ADrainAtRestIsDoneWhereAllIsCommitted) {
  EXPECT_EQ(Order(8), 10);
  Complete(10);
  plan_.Drain();
  plan_.Rest(10, 0, computed_);
  ExpectNothing(10);
  EXPECT_TRUE(plan_.over());
  EXPECT_EQ(plan_.failures(), 0);
}

// It may be writing the version yet, or be past it for good.
TEST_F(CheckpointPlanTest,
       AtRestAServerThatSeemsPastIsAskedAgainButNotForever) {
  plan_.Drain();
  for (int i = 0; i < 20; ++i) {
    plan_.Rest(4, 0, computed_);
    EXPECT_EQ(Order(4), 4);
    Answer(4, SnapshotReport::PASSED);
    EXPECT_EQ(Expect<Plan::Discard>(4).folder, "folder");
    ExpectNothing(4);  // Until Rest is called again.
  }
  EXPECT_FALSE(plan_.over());
  plan_.Rest(4, 0, computed_);
  EXPECT_THAT(Expect<Plan::Warn>(4).message,
              testing::HasSubstr("left in the middle of the next step"));
  EXPECT_TRUE(plan_.over());
  EXPECT_EQ(plan_.committed(), 0);
}

TEST_F(CheckpointPlanTest, AtRestNothingIsTakenOfStepsThatAreHalfDone) {
  // Asynchronous: steps from 6 on are not claimed.
  plan_.Drain();
  plan_.Rest(/*completed=*/4, /*earliest=*/6, computed_);
  Expect<Plan::Warn>(4, 6);
  EXPECT_TRUE(plan_.over());
}

TEST_F(CheckpointPlanTest, AtRestTheLastVersionIsNotKeptWithoutItsEvaluation) {
  EXPECT_EQ(Order(20), 25);
  Answer(25, SnapshotReport::WRITTEN, "f");
  computed_ = false;
  plan_.Drain();
  plan_.Rest(25, 0, computed_);
  EXPECT_EQ(Expect<Plan::Discard>(25).folder, "folder");
  EXPECT_THAT(Expect<Plan::Warn>(25).message,
              testing::HasSubstr("no worker is left for the last evaluation"));
  EXPECT_TRUE(plan_.over());
}

TEST_F(CheckpointPlanTest, GoesOnAsUsualWhereWorkersComeBack) {
  plan_.Drain();
  plan_.Rest(4, 0, computed_);
  EXPECT_EQ(Order(4), 4);
  Answer(4, SnapshotReport::PASSED);
  Expect<Plan::Discard>(4);
  EXPECT_GT(Order(5), 5);
}

TEST_F(CheckpointPlanTest, ADrainEndsWithOneThatFailed) {
  plan_.Drain();
  const int64_t soon = Order(3);
  Answer(soon, SnapshotReport::FAILED, "no");
  Expect<Plan::Discard>(soon);
  Expect<Plan::Warn>(soon);
  ExpectNothing(soon);
  EXPECT_TRUE(plan_.over());
}

// Asynchronous mode: steps beyond may have been given out already.
TEST_F(CheckpointPlanTest, ChoosesNoVersionBeforeTheEarliest) {
  EXPECT_EQ(Order(2, /*earliest=*/14), 20);
}

TEST(CheckpointPlanOffTest, DoesNothing) {
  Plan plan({/*every=*/0, /*last=*/25, /*servers=*/1, /*first=*/0});
  EXPECT_TRUE(plan.over());
  plan.TakeSoon();
  EXPECT_FALSE(plan.soon());
  plan.Drain();
  EXPECT_FALSE(plan.Next(25, 0, true).has_value());
}

TEST(CheckpointPlanOffTest, GoesOnFromACheckpoint) {
  Plan plan({/*every=*/10, /*last=*/25, /*servers=*/1, /*first=*/20});
  EXPECT_EQ(plan.committed(), 20);
  const auto action = plan.Next(20, 0, true);
  ASSERT_TRUE(action.has_value());
  EXPECT_EQ(std::get<Plan::MakeFolder>(*action).version, 25);
  Plan done({/*every=*/10, /*last=*/25, /*servers=*/1, /*first=*/25});
  EXPECT_TRUE(done.over());
}

}  // namespace
}  // namespace tributary
