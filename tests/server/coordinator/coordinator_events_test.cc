// The events of a coordinator: what it tells of processes, checkpoints and the
// end of an attempt.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/metrics/metrics_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinatorEventsTest : public CoordinatorTest {
 protected:
  CoordinatorEventsTest() {
    options_.on_event = [this](const JobEvent& event) {
      events_.push_back(event);
    };
  }

  // Returns the kinds of the events since the last call.
  std::vector<std::string> TakeKinds() {
    std::vector<std::string> kinds;
    for (const JobEvent& event : events_) kinds.push_back(event.kind());
    events_.clear();
    return kinds;
  }

  std::vector<JobEvent> events_;
};

TEST_F(CoordinatorEventsTest, TellsOfWorkersThatJoinAndAreLost) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker first, second;
  EnterAll({&first, &second});
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[1].role(), "worker");
  EXPECT_EQ(events_[1].number(), 1);
  EXPECT_EQ(events_[1].severity(), JobEvent::INFO);
  EXPECT_THAT(TakeKinds(), ElementsAre("worker_joined", "worker_joined"));
  coordinator_->OnWorkerDisconnected(second.incarnation);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].number(), 1);
  EXPECT_EQ(events_[0].attempt(), 1);
  EXPECT_EQ(events_[0].severity(), JobEvent::WARNING);
  EXPECT_THAT(events_[0].message(), HasSubstr("its connection has ended"));
  EXPECT_THAT(TakeKinds(), ElementsAre("worker_lost"));
  coordinator_->OnWorkerDisconnected(second.incarnation);
  EXPECT_THAT(TakeKinds(), IsEmpty());
}

TEST_F(CoordinatorEventsTest, TellsOfLeasesThatExpire) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker heard, silent;
  EnterAll({&heard, &silent});
  events_.clear();
  Pass(absl::Seconds(12), {&heard});
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_THAT(events_[0].message(),
              HasSubstr("was silent for longer than its lease of 10s"));
  EXPECT_EQ(events_[0].number(), 1);
  EXPECT_THAT(TakeKinds(), ElementsAre("lease_expired", "worker_lost"));
  MetricsPage page;
  coordinator_->AddMetrics(&page);
  EXPECT_THAT(page.text(), HasSubstr("\ntributary_lease_expiries_total 1\n"));
}

TEST_F(CoordinatorEventsTest, LeasesAreShortWhileTheJobIsStopped) {
  Make(/*servers=*/1, /*expected_workers=*/2);
  FakeWorker heard, silent;
  EnterAll({&heard, &silent});
  Pass(absl::Seconds(3), {&heard});
  events_.clear();
  coordinator_->Drain();
  Pass(absl::Seconds(1), {&heard});
  EXPECT_THAT(TakeKinds(), ElementsAre("lease_expired"));
  EXPECT_EQ(silent.closed.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CoordinatorEventsTest, TellsOfAServerThatIsLost) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  FakeWorker worker;
  Enter(&worker);
  events_.clear();
  coordinator_->ServerGone(1);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[0].role(), "server");
  EXPECT_EQ(events_[0].number(), 1);
  EXPECT_THAT(TakeKinds(), ElementsAre("server_lost", "rolled_back"));
}

TEST_F(CoordinatorEventsTest, TellsOnceThatTheJobHasFailed) {
  Make(/*servers=*/1, /*expected_workers=*/1);
  coordinator_->Fail(absl::InternalError("the disk is broken"));
  coordinator_->Fail(absl::InternalError("again"));
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].message(), "the disk is broken");
  EXPECT_EQ(events_[0].severity(), JobEvent::ERROR);
  EXPECT_THAT(TakeKinds(), ElementsAre("failed"));
}

}  // namespace
}  // namespace tributary
