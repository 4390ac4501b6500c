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
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr absl::Duration kPatience = absl::Seconds(60);

// The reply's field `status` with the value SERVING or NOT_SERVING.
const std::string kServing("\x08\x01", 2);
const std::string kNotServing("\x08\x02", 2);

std::unique_ptr<Logger> TestLog() {
  return Logger::Create(LogOptions()).value();
}

// Returns HealthCheckRequest{service}.
grpc::ByteBuffer Request(const std::string& service) {
  const std::string bytes = absl::StrCat(
      "\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string TextOf(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return "unreadable";
  return std::string(slice.begin(), slice.end());
}

class HealthEndpointTest : public testing::Test {
 protected:
  HealthEndpointTest()
      : endpoint_(HealthEndpoint::Start("127.0.0.1:0", log_.get()).value()),
        channel_(CreateChannel(absl::StrCat("127.0.0.1:", endpoint_->port()))),
        stub_(channel_) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  }

  // Calls `method`; sets `*reply` to the bytes of its reply.
  grpc::Status Call(const std::string& method, const std::string& service,
                    std::string* reply) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    grpc::CompletionQueue queue;
    grpc::ByteBuffer bytes;
    grpc::Status status;
    const auto call =
        stub_.PrepareUnaryCall(&context, method, Request(service), &queue);
    call->StartCall();
    call->Finish(&bytes, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    *reply = TextOf(bytes);
    return status;
  }

  std::string Health(const std::string& service) {
    std::string reply;
    const grpc::Status status = Call(kCheck, service, &reply);
    return status.ok() ? reply : status.error_message();
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
    watch_->Write(Request(service), nullptr);
    ASSERT_TRUE(Next());
  }

  std::string NextHealth() {
    grpc::ByteBuffer bytes;
    watch_->Read(&bytes, nullptr);
    return Next() ? TextOf(bytes) : "end";
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
  EXPECT_EQ(Health(""), kServing);
  EXPECT_EQ(Health(kReadyService), kNotServing);
  endpoint_->SetReady(true);
  EXPECT_EQ(Health(kReadyService), kServing);
  endpoint_->SetReady(false);
  EXPECT_EQ(Health(kReadyService), kNotServing);
  EXPECT_EQ(Health(""), kServing);
}

TEST_F(HealthEndpointTest, DoesNotKnowOtherServices) {
  std::string reply;
  EXPECT_EQ(Call(kCheck, "tributary.reedy", &reply).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthEndpointTest, ServesNothingElse) {
  for (const char* method :
       {"/tributary.Rendezvous/GetStatus", "/grpc.channelz.v1.Channelz/GetTop",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    std::string reply;
    EXPECT_EQ(Call(method, "", &reply).error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
}

TEST_F(HealthEndpointTest, RefusesALargeMessage) {
  // The name's length is only one byte of the request, so the rest is an
  // unknown field; the size is checked first.
  const std::string bytes(2048, 'x');
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call = stub_.PrepareUnaryCall(&context_, kCheck, request, &queue_);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  Next();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
}

TEST_F(HealthEndpointTest, ReportsChangesToWatchers) {
  Watch(kReadyService);
  EXPECT_EQ(NextHealth(), kNotServing);
  endpoint_->SetReady(true);
  EXPECT_EQ(NextHealth(), kServing);
  context_.TryCancel();
  EXPECT_EQ(NextHealth(), "end");
  grpc::Status status;
  watch_->Finish(&status, nullptr);
  Next();
}

TEST_F(HealthEndpointTest, EndsAtOnceWithAWatcher) {
  Watch(kReadyService);
  EXPECT_EQ(NextHealth(), kNotServing);
  std::thread end([this] { endpoint_.reset(); });
  // A watcher is told that nothing is served any more before its call ends.
  std::string last;
  for (std::string now; (now = NextHealth()) != "end";) last = now;
  EXPECT_NE(last, kServing);
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
