#include "worker/process/membership_client.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

class MembershipClientTest : public testing::Test {
 protected:
  MembershipClientTest() {
    auto stream =
        std::make_unique<FakeClientStream<CoordinatorOrder, WorkerReport>>();
    stream_ = stream.get();
    client_.Begin(std::move(stream), "10.0.0.1:1", Join());
  }

  MembershipClient client_;
  FakeClientStream<CoordinatorOrder, WorkerReport>* stream_ = nullptr;
};

TEST_F(MembershipClientTest, KnowsFromTheCoordinatorThatTheJobIsDone) {
  stream_->End(absl::OutOfRangeError("the job is done; nothing to join"));
  EXPECT_TRUE(IsJobDone(client_.AwaitAdmission().status()));
}

// A file that is too large once ended a worker as if the job were done.
TEST_F(MembershipClientTest, OtherErrorsDoNotMeanThatTheJobIsDone) {
  EXPECT_FALSE(IsJobDone(absl::OutOfRangeError("config.json: larger than 9")));
  stream_->End(absl::UnavailableError("gone"));
  const absl::Status ended = client_.AwaitAdmission().status();
  EXPECT_FALSE(IsJobDone(ended));
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
}

TEST_F(MembershipClientTest, PassesEachAssignmentOnBeforeItHolds) {
  int64_t generation = 0;
  client_.SetDeal([&](const Deal& deal) { generation = deal.generation(); });
  CoordinatorOrder order;
  order.mutable_deal()->set_generation(3);
  // Without a WorkState no order has an effect.
  stream_->Receive(order);
  EXPECT_EQ(generation, 0);
  stream_->End(absl::OkStatus());
}

}  // namespace
}  // namespace tributary
