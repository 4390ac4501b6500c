#include "server/service/membership_session.h"

#include <string>

#include "common/transport/channel.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"

namespace tributary {
namespace {

// A coordinator of two servers, of which shard 1 is in another process.
class CoordinatorSessionsTest : public testing::Test {
 protected:
  static Coordinator::Options TwoServers() {
    Coordinator::Options options;
    options.servers = 2;
    return options;
  }
  static ServerReport EnlistReport() {
    ServerReport report;
    report.mutable_enlist()->set_protocol_version(kProtocolVersion);
    report.mutable_enlist()->set_shard(1);
    report.mutable_enlist()->set_address("b:2");
    return report;
  }

  Coordinator coordinator_{TwoServers(), &absl::Now, [](const std::string&) {}};
};

TEST_F(CoordinatorSessionsTest, RequiresJoinFirst) {
  FakeServerStream<CoordinatorOrder> stream;
  MembershipSession session(&coordinator_, &stream);
  WorkerReport report;
  report.mutable_claim();
  session.OnMessage(report, ReceivedPayload());
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_EQ(*stream.closed(),
            absl::FailedPreconditionError("the first report must be Join"));
}

TEST_F(CoordinatorSessionsTest, RequiresEnlistFirst) {
  FakeServerStream<ServerOrder> stream;
  EnlistmentSession session(&coordinator_, &stream);
  ServerReport report;
  report.mutable_farewell();
  session.OnMessage(report, ReceivedPayload());
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_EQ(*stream.closed(),
            absl::FailedPreconditionError("the first report must be Enlist"));
}

TEST_F(CoordinatorSessionsTest, TheEndOfAStreamRemovesItsServer) {
  FakeServerStream<ServerOrder> first_stream, second_stream;
  EnlistmentSession first(&coordinator_, &first_stream);
  EnlistmentSession second(&coordinator_, &second_stream);
  first.OnMessage(EnlistReport(), ReceivedPayload());
  EXPECT_FALSE(first_stream.closed().has_value());
  second.OnMessage(EnlistReport(), ReceivedPayload());
  ASSERT_TRUE(second_stream.closed().has_value());
  EXPECT_TRUE(absl::IsAlreadyExists(*second_stream.closed()));
  EXPECT_EQ(coordinator_.AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kNone);
  first.OnEnd();
  EXPECT_EQ(first_stream.closed(), absl::OkStatus());
  EXPECT_EQ(coordinator_.AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kRolledBack);
  first.OnGone();
}

}  // namespace
}  // namespace tributary
