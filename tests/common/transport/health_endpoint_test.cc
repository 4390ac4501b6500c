#include "common/transport/health_endpoint.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/backoff.h"
#include "common/os/logger.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/byte_call.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr absl::Duration kPatience = absl::Seconds(60);

std::unique_ptr<Logger> TestLog() {
  return Logger::Create(LogOptions()).value();
}

class HealthEndpointTest : public testing::Test {
 protected:
  HealthEndpointTest()
      : endpoint_(HealthEndpoint::Start("127.0.0.1:0", log_.get()).value()),
        channel_(CreateChannel(absl::StrCat("127.0.0.1:", endpoint_->port()))),
        stub_(channel_) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  }

  std::string Health(const std::string& service) {
    return HealthOf(channel_, service);
  }

  // Waits for the operation in flight, and returns whether it has succeeded.
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  // Opens a call of Watch, which the members below belong to.
  void Watch(const std::string& service) {
    watch_ = stub_.PrepareCall(&context_, kWatch, &queue_);
    watch_->StartCall(nullptr);
    ASSERT_TRUE(Next());
    const grpc::Slice request(HealthRequest(service));
    watch_->Write(grpc::ByteBuffer(&request, 1), nullptr);
    ASSERT_TRUE(Next());
  }

  std::string NextHealth() {
    grpc::ByteBuffer bytes;
    watch_->Read(&bytes, nullptr);
    if (!Next()) return "end";
    grpc::Slice reply;
    EXPECT_TRUE(bytes.DumpToSingleSlice(&reply).ok());
    return HealthIn(std::string(reply.begin(), reply.end()));
  }

  const std::unique_ptr<Logger> log_ = TestLog();
  std::unique_ptr<HealthEndpoint> endpoint_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> watch_;
};

TEST_F(HealthEndpointTest, IsAliveFromTheStartAndReadyOnlyWhenToldSo) {
  EXPECT_EQ(Health(""), "SERVING");
  EXPECT_EQ(Health(kReadyService), "NOT_SERVING");
  endpoint_->SetReady(true);
  EXPECT_EQ(Health(kReadyService), "SERVING");
  endpoint_->SetReady(false);
  EXPECT_EQ(Health(kReadyService), "NOT_SERVING");
  EXPECT_EQ(Health(""), "SERVING");
}

TEST_F(HealthEndpointTest, DoesNotKnowOtherServices) {
  EXPECT_EQ(CallInBytes(channel_, kCheck, HealthRequest("tributary.reedy"))
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthEndpointTest, ServesNothingElse) {
  for (const char* method :
       {"/tributary.Rendezvous/GetStatus", "/grpc.channelz.v1.Channelz/GetTop",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallInBytes(channel_, method, HealthRequest("")).error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
}

TEST_F(HealthEndpointTest, RefusesALargeMessage) {
  // The name's length is only one byte of the request, so the rest is an
  // unknown field; the size is checked first.
  const grpc::Status status =
      CallInBytes(channel_, kCheck, std::string(2048, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
}

TEST_F(HealthEndpointTest, ReportsChangesToWatchers) {
  Watch(kReadyService);
  EXPECT_EQ(NextHealth(), "NOT_SERVING");
  endpoint_->SetReady(true);
  EXPECT_EQ(NextHealth(), "SERVING");
  context_.TryCancel();
  EXPECT_EQ(NextHealth(), "end");
  grpc::Status status;
  watch_->Finish(&status, nullptr);
  Next();
}

TEST_F(HealthEndpointTest, EndsAtOnceWithAWatcher) {
  Watch(kReadyService);
  EXPECT_EQ(NextHealth(), "NOT_SERVING");
  std::thread end([this] { endpoint_.reset(); });
  // A watcher is told that nothing is served any more before its call ends.
  std::string last;
  for (std::string now; (now = NextHealth()) != "end";) last = now;
  EXPECT_NE(last, "SERVING");
  end.join();
  grpc::Status status;
  watch_->Finish(&status, nullptr);
  Next();
  // An error after which a client watches again, unlike Unimplemented. Which
  // one depends on whether the stream or the connection ends first.
  EXPECT_TRUE(IsTransient(FromGrpc(status))) << FromGrpc(status);
}

TEST_F(HealthEndpointTest, NamesAnAddressThatIsTaken) {
  const std::string taken = absl::StrCat("127.0.0.1:", endpoint_->port());
  const auto second = HealthEndpoint::Start(taken, log_.get());
  EXPECT_THAT(second,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("cannot listen on ", taken))));
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("--health-listen"));
}

}  // namespace
}  // namespace tributary
