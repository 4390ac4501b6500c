// What the coordinator does when servers or workers are lost, or never come.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"
#include "tests/server/coordinator_fixture.h"

namespace tributary {
namespace {

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

}  // namespace
}  // namespace tributary
