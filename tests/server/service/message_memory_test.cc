// Measures how much memory one message can make a process use. A test of its
// own, because it measures the memory of the whole process.
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/listener/listener.h"
#include "common/os/file.h"
#include "common/transport/channel.h"
#include "common/transport/credentials.h"
#include "common/transport/health_endpoint.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/support/certificates.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kGetStatus[] = "/tributary.Rendezvous/GetStatus";
// What a message may cost, and a message that would cost much more if it were
// stored or inflated.
constexpr int64_t kMaxGrowth = int64_t{64} << 20;
constexpr int kMessageMiB = 128;

// Returns a message of kMessageMiB times a mebibyte of zeros, which all share
// the memory of one.
grpc::ByteBuffer LargeMessage() {
  const grpc::Slice mebibyte(std::string(1 << 20, '\0'));
  const std::vector<grpc::Slice> slices(kMessageMiB, mebibyte);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// Sets the process's peak of resident memory to its present value.
void ResetPeak() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "5", 1), 1);
  close(file);
}

// Returns the peak of the process's resident memory, in bytes.
int64_t Peak() {
  const std::string status = ReadFile("/proc/self/status", 1 << 16).value();
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::StartsWith(line, "VmHWM:")) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t kibibytes = 0;
    if (absl::SimpleAtoi(words.at(1), &kibibytes)) return kibibytes << 10;
  }
  ADD_FAILURE() << "no peak of memory";
  return 0;
}

// A client without limits of its own.
class HostileClient {
 public:
  HostileClient(const std::string& address, const Security& security)
      : stub_(Connect(address, security)) {}

  // Calls `method` with `request`, and returns how the call ended.
  grpc::Status Call(const std::string& method, const grpc::ByteBuffer& request,
                    grpc_compression_algorithm compression) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    context.set_compression_algorithm(compression);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub_.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

 private:
  static std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                                const Security& security) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (security.tls()) {
      arguments.SetSslTargetNameOverride("server.tributary");
    }
    return grpc::experimental::CreateCustomChannelWithInterceptors(
        address, MakeChannelCredentials(security), arguments,
        MakeTokenInterceptors(security));
  }

  grpc::GenericStub stub_;
};

// A server that answers every call with a large compressed message.
class HostileServer : public grpc::CallbackGenericService {
 public:
  HostileServer() {
    grpc::ServerBuilder builder;
    builder.SetMaxSendMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~HostileServer() override {
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
  }

  int port() const { return port_; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    return new Reply();
  }

 private:
  class Reply final : public grpc::ServerGenericBidiReactor {
   public:
    Reply() {
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    const grpc::ByteBuffer message_ = LargeMessage();
  };

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class MessageMemoryTest : public testing::Test {
 protected:
  MessageMemoryTest() {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    WriteTlsDirectory(tls_);
  }

  std::unique_ptr<Listener> StartListener(const Security& security) {
    Listener::Options options;
    options.network = "127.0.0.1:0";
    options.unix_socket = socket_;
    options.security = security;
    options.log = log_.get();
    return Listener::Start(options, {&service_}).value();
  }

  // Expects that the server at `address` refuses large messages for little
  // memory, with `code` if they are compressed.
  void ExpectSmall(const std::string& address, const Security& security,
                   const std::vector<grpc_compression_algorithm>& compressions,
                   grpc::StatusCode code = grpc::StatusCode::UNIMPLEMENTED) {
    HostileClient client(address, security);
    for (const char* method : {kHealthCheck, kGetStatus}) {
      for (const grpc_compression_algorithm compression : compressions) {
        SCOPED_TRACE(absl::StrCat(address, method, " compression ",
                                  static_cast<int>(compression)));
        ResetPeak();
        const int64_t before = Peak();
        const grpc::Status status =
            client.Call(method, LargeMessage(), compression);
        EXPECT_LT(Peak() - before, kMaxGrowth);
        EXPECT_FALSE(status.ok());
        if (compression == GRPC_COMPRESS_NONE) continue;
        EXPECT_EQ(status.error_code(), code) << status.error_message();
      }
    }
  }

  static std::string AddressOf(const Listener& listener) {
    return absl::StrCat("127.0.0.1:", listener.port());
  }

  const std::vector<grpc_compression_algorithm> any_ = {
      GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_NONE};
  const std::string token_ = std::string(64, 'a');
  const std::string tls_ = testing::TempDir() + "/memory-tls";
  const std::string socket_ =
      absl::StrCat("unix-abstract:tributary-memory-test-", getpid());
  Rendezvous::CallbackService service_;
  std::unique_ptr<Logger> log_;
};

TEST_F(MessageMemoryTest, AServerInflatesNoMessageOfAMember) {
  for (const std::string& tls : {std::string(), tls_}) {
    for (const std::string& token : {std::string(), token_}) {
      const auto listener =
          StartListener(TestSecurity(tls, Role::kServer, token));
      ExpectSmall(AddressOf(*listener), TestSecurity(tls, Role::kWorker, token),
                  {GRPC_COMPRESS_GZIP});
      ExpectSmall(socket_, Security(), {GRPC_COMPRESS_GZIP});
    }
  }
}

TEST_F(MessageMemoryTest, AServerStoresNoMessageOfACallerWithoutToken) {
  for (const std::string& tls : {std::string(), tls_}) {
    const auto listener =
        StartListener(TestSecurity(tls, Role::kServer, token_));
    ExpectSmall(AddressOf(*listener), TestSecurity(tls, Role::kWorker), any_,
                grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_F(MessageMemoryTest, TheHealthPortStoresNoLargeMessage) {
  const auto health = HealthEndpoint::Start("127.0.0.1:0", log_.get()).value();
  ExpectSmall(absl::StrCat("127.0.0.1:", health->port()), Security(), any_);
}

TEST_F(MessageMemoryTest, AClientInflatesNoReply) {
  const HostileServer server;
  const auto stub = Rendezvous::NewStub(
      CreateChannel(absl::StrCat("127.0.0.1:", server.port())));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  StatusReply reply;
  ResetPeak();
  const int64_t before = Peak();
  const grpc::Status status =
      stub->GetStatus(&context, StatusRequest(), &reply);
  EXPECT_LT(Peak() - before, kMaxGrowth);
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace tributary
