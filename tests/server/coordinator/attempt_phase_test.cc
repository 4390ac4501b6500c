#include "server/coordinator/attempt_phase.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Phase = AttemptPhase::Phase;

absl::Status Lost() { return absl::UnavailableError("server 1 is gone"); }

AttemptPhase In(Phase wanted) {
  AttemptPhase phase;
  switch (wanted) {
    case Phase::kWaiting:
      break;
    case Phase::kTraining:
      phase.Train();
      break;
    case Phase::kFinishing:
      phase.Finish();
      break;
    case Phase::kDone:
      phase.Finish();
      phase.Conclude();
      break;
    case Phase::kRecovering:
      phase.RollBack(AttemptEnding::kRolledBack, Lost(), /*workers_left=*/true);
      break;
    case Phase::kDrained:
      phase.Drain();
      break;
    case Phase::kFailed:
      phase.Fail(absl::DataLossError("the disk is full"), /*exit_code=*/1);
      break;
  }
  EXPECT_EQ(phase.phase(), wanted);
  return phase;
}

TEST(AttemptPhaseTest, EndsAsTrainedWhenAllIsComputedAndEverybodyGone) {
  AttemptPhase phase;
  EXPECT_TRUE(phase.waiting());
  phase.Conclude();
  EXPECT_TRUE(phase.waiting());
  phase.Train();
  EXPECT_TRUE(phase.training());
  EXPECT_EQ(phase.ending(/*workers_left=*/false), AttemptEnding::kNone);
  phase.Finish();
  EXPECT_EQ(phase.ending(/*workers_left=*/true), AttemptEnding::kNone);
  EXPECT_EQ(phase.ending(/*workers_left=*/false), AttemptEnding::kTrained);
  phase.Conclude();
  EXPECT_EQ(phase.phase(), Phase::kDone);
  EXPECT_EQ(phase.ending(/*workers_left=*/true), AttemptEnding::kTrained);
  EXPECT_TRUE(phase.failure().ok());
}

TEST(AttemptPhaseTest, IsDrainedOnlyWhileWorkIsUnderWay) {
  for (const Phase from : {Phase::kWaiting, Phase::kTraining}) {
    AttemptPhase phase = In(from);
    phase.Drain();
    EXPECT_EQ(phase.ending(true), AttemptEnding::kDrained);
  }
  AttemptPhase finishing = In(Phase::kFinishing);
  finishing.Drain();
  EXPECT_TRUE(finishing.finishing());
}

TEST(AttemptPhaseTest, GoesBackOnceUnlessItHasEnded) {
  for (const Phase from :
       {Phase::kWaiting, Phase::kTraining, Phase::kFinishing}) {
    AttemptPhase phase = In(from);
    EXPECT_TRUE(phase.RollBack(AttemptEnding::kDamaged, Lost(), true));
    EXPECT_EQ(phase.ending(true), AttemptEnding::kDamaged);
    EXPECT_EQ(phase.failure(), Lost());
    EXPECT_FALSE(phase.RollBack(AttemptEnding::kRolledBack,
                                absl::UnavailableError("another"), true));
    EXPECT_EQ(phase.failure(), Lost());
  }
  AttemptPhase trained = In(Phase::kFinishing);
  EXPECT_FALSE(trained.RollBack(AttemptEnding::kRolledBack, Lost(),
                                /*workers_left=*/false));
  for (const Phase from : {Phase::kDone, Phase::kDrained, Phase::kFailed}) {
    EXPECT_FALSE(In(from).RollBack(AttemptEnding::kRolledBack, Lost(), true));
  }
}

TEST(AttemptPhaseTest, FailsUnlessItIsConcluded) {
  for (const Phase from : {Phase::kWaiting, Phase::kTraining, Phase::kFinishing,
                           Phase::kRecovering}) {
    AttemptPhase phase = In(from);
    EXPECT_TRUE(phase.Fail(absl::InternalError("it broke"), /*exit_code=*/2));
    EXPECT_EQ(phase.ending(true), AttemptEnding::kFailed);
    EXPECT_EQ(phase.failure(), absl::InternalError("it broke"));
    EXPECT_EQ(phase.failure_exit_code(), 2);
  }
  for (const Phase from : {Phase::kDone, Phase::kDrained, Phase::kFailed}) {
    EXPECT_FALSE(In(from).Fail(absl::InternalError("it broke"), 2));
  }
}

TEST(AttemptPhaseTest, AnotherCoordinatorEndsItAsFailedButPeersJoinAgain) {
  AttemptPhase phase = In(Phase::kTraining);
  EXPECT_TRUE(phase.GiveUp(absl::AbortedError("attempt 3 has begun")));
  EXPECT_EQ(phase.ending(true), AttemptEnding::kFailed);
  EXPECT_THAT(phase.CheckWorkerMayJoin(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("attempt 3 has begun; join again")));
  for (const Phase from :
       {Phase::kDone, Phase::kRecovering, Phase::kDrained, Phase::kFailed}) {
    EXPECT_FALSE(In(from).GiveUp(Lost()));
  }
}

TEST(AttemptPhaseTest, TellsWorkersWhetherToJoin) {
  EXPECT_TRUE(In(Phase::kWaiting).CheckWorkerMayJoin().ok());
  EXPECT_TRUE(In(Phase::kTraining).CheckWorkerMayJoin().ok());
  for (const Phase done : {Phase::kFinishing, Phase::kDone}) {
    EXPECT_THAT(In(done).CheckWorkerMayJoin(),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
  EXPECT_THAT(In(Phase::kRecovering).CheckWorkerMayJoin(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("server 1 is gone; join again")));
  EXPECT_THAT(In(Phase::kDrained).CheckWorkerMayJoin(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(In(Phase::kFailed).CheckWorkerMayJoin(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the job failed: the disk is full")));
}

TEST(AttemptPhaseTest, TellsServersOnlyOfFailuresAndOfTheNextAttempt) {
  for (const Phase open : {Phase::kWaiting, Phase::kTraining, Phase::kFinishing,
                           Phase::kDone, Phase::kDrained}) {
    EXPECT_TRUE(In(open).CheckServerMayEnlist().ok());
  }
  EXPECT_THAT(In(Phase::kRecovering).CheckServerMayEnlist(),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(In(Phase::kFailed).CheckServerMayEnlist(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the job failed: the disk is full")));
}

}  // namespace
}  // namespace tributary
