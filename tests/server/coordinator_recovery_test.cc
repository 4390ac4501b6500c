// What the coordinator does when servers or workers are lost, or never come.
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"
#include "tests/server/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(CoordinatorTest, GoesBackWhenAServerIsGone) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  coordinator_->ServerGone(1);
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kGoesBack);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("server 1 (10.0.0.2:1) is gone"));
  EXPECT_EQ(coordinator_->workers_at_ending(), 1);
  for (const absl::Status& closed : {worker.closed, servers_[0].closed}) {
    EXPECT_EQ(closed.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(closed.message()), HasSubstr("join again"));
  }
  // Nobody is let into what is over.
  FakeWorker late;
  EXPECT_EQ(Join(&late).code(), absl::StatusCode::kAborted);
}

TEST_F(CoordinatorTest, GoesBackWhenAServerIsSilentForLongerThanItsLease) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  ServerReport alive;
  alive.mutable_heartbeat();
  for (int i = 0; i < 3; ++i) {
    Pass(options_.lease, {&worker});
    ASSERT_TRUE(coordinator_->OnServerReport(1, alive).ok());
  }
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  Pass(options_.lease + absl::Seconds(1), {&worker});
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kGoesBack);
  EXPECT_THAT(std::string(servers_[1].closed.message()),
              HasSubstr("server 1 was silent for longer than its lease"));
}

// It heard nobody because it stood still itself.
TEST_F(CoordinatorTest, DoesNotTakeItsOwnPauseForTheSilenceOfOthers) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  coordinator_->Tick();
  now_ += 10 * options_.lease;
  coordinator_->Tick();
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  EXPECT_TRUE(worker.closed.ok());
}

TEST_F(CoordinatorTest, FailsWhenAServerDoesNotCome) {
  Make(/*servers=*/2, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/0, /*present=*/1);
  now_ += options_.no_server_timeout + absl::Seconds(1);
  coordinator_->Tick();
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("tributary server --shard 1 --servers 2"));
}

TEST_F(CoordinatorTest, FailsWhenNoWorkerComes) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  now_ += options_.no_worker_timeout + absl::Seconds(1);
  coordinator_->Tick();
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("no worker for"));
}

// Both workers show signs of life; one of them hangs.
class StallTest : public CoordinatorTest {
 protected:
  void Begin(const std::string& first_phase, const std::string& second_phase) {
    Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/9);
    Enter(&first_);
    Enter(&second_);
    now_ += absl::Seconds(1);
    ASSERT_TRUE(SaySums(/*shard=*/0, /*step=*/0, {1, 1, 1}).ok());
    phases_ = {{&first_, first_phase}, {&second_, second_phase}};
  }

  void PassAlive(absl::Duration time) {
    for (absl::Duration t; t < time; t += absl::Seconds(1)) {
      now_ += absl::Seconds(1);
      for (const auto& [worker, phase] : phases_) {
        WorkerReport beat;
        beat.mutable_heartbeat()->set_step(1);
        beat.mutable_heartbeat()->set_phase(phase);
        if (!worker->closed.ok()) continue;
        ASSERT_TRUE(Say(worker, beat).ok());
      }
      coordinator_->Tick();
    }
  }

  Coordinator::Ending Ending() {
    return coordinator_->AwaitEnding(absl::ZeroDuration());
  }

  FakeWorker first_, second_;
  std::map<FakeWorker*, std::string> phases_;
};

TEST_F(StallTest, DoesWithoutAWorkerThatHoldsAStepUpForTooLong) {
  Begin("exchange", "backward");
  PassAlive(options_.stall_timeout - absl::Seconds(1));
  EXPECT_TRUE(second_.closed.ok());
  PassAlive(absl::Seconds(2));
  EXPECT_EQ(second_.closed.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(second_.closed.message()),
              AllOf(HasSubstr("step 2 has not ended for 10m"),
                    HasSubstr("the others wait for worker 1")));
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_EQ(first_.last_deal().leaf_end(), 4);
  // It gets as long for its part.
  PassAlive(options_.stall_timeout - absl::Seconds(5));
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_TRUE(first_.closed.ok());
}

TEST_F(StallTest, BeginsAgainWhereNobodyCanBeBlamed) {
  Begin("exchange", "exchange");
  PassAlive(options_.stall_timeout + absl::Seconds(1));
  EXPECT_EQ(Ending(), Coordinator::Ending::kGoesBack);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("step 2 has not ended for 10m"));
  EXPECT_EQ(first_.closed.code(), absl::StatusCode::kAborted);
}

TEST_F(StallTest, WaitsForLongEvaluations) {
  Begin("exchange", "evaluate");
  PassAlive(3 * options_.stall_timeout);
  EXPECT_EQ(Ending(), Coordinator::Ending::kNone);
  EXPECT_TRUE(second_.closed.ok());
}

}  // namespace
}  // namespace tributary
