// Workers that the service refuses, over gRPC: what they are told, and what the
// server logs.
#include "server/service/parameter_server_service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "common/transport/channel.h"
#include "common/update/update_engine.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "tests/server/service/small_store.h"
#include "tests/support/command_runner.h"
#include "tests/support/executors.h"
#include "tests/support/full_pipe.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kChunkElements = 16;

// A server of one chunk, in attempt 3.
class ParameterServerServiceTest : public testing::Test {
 protected:
  ParameterServerServiceTest() {
    LogOptions log;
    log.standard_error = false;
    log.file = log_path_;
    log_ = *Logger::Create(log);
    const ParameterTable table =
        TableOfOneParameter(kChunkElements, kChunkElements);
    UpdateEngine::Options options = SmallStoreOptions();
    engine_ = *UpdateEngine::Create(options, *ArenaLayout::Create(table),
                                    &pool_, [](const StepSums&) {});
    Start();
  }

  ~ParameterServerServiceTest() override { Stop(); }

  // Starts a service that logs to `log_`.
  void Start() {
    service_ =
        std::make_unique<ParameterServerService>(/*shard=*/0, log_.get());
    ServedWeights served;
    served.engine = engine_.get();
    served.job_id = "job";
    served.attempt = 3;
    service_->sessions()->Serve(served);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = CreateChannel(absl::StrCat("127.0.0.1:", port));
  }

  void Stop() {
    server_->Shutdown();
    service_->AwaitIdle();
  }

  // The Hello of a correct worker.
  WorkerMessage GoodHello() const {
    WorkerMessage message;
    message.mutable_hello()->set_incarnation(7);
    message.mutable_hello()->set_attempt(3);
    message.mutable_hello()->set_job_id("job");
    message.mutable_hello()->set_signature(engine_->layout().signature());
    return message;
  }

  // Sends these bytes on one Exchange call, and returns the call's status.
  grpc::Status Exchange(const std::vector<std::string>& messages) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    grpc::CompletionQueue queue;
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(
        &context, "/tributary.ParameterServer/Exchange", &queue);
    call->StartCall(nullptr);
    done();
    for (const std::string& message : messages) {
      const grpc::Slice slice(message);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      done();
    }
    grpc::ByteBuffer reply;
    do {
      call->Read(&reply, nullptr);
    } while (done());
    grpc::Status status;
    call->Finish(&status, nullptr);
    done();
    return status;
  }

  // The lines of the server's log.
  std::vector<std::string> Log() const {
    log_->Flush();
    return absl::StrSplit(ReadWholeFile(log_path_), '\n', absl::SkipEmpty());
  }

  const std::string log_path_ = MakeTestFolder() + "/log";
  std::unique_ptr<Logger> log_;
  InlineExecutor pool_;
  std::unique_ptr<UpdateEngine> engine_;
  std::unique_ptr<ParameterServerService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ParameterServerServiceTest, LogsWhichWorkerItRefusesAndWhy) {
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_signature("0123456789abcdef");
  const grpc::Status refused = Exchange({hello.SerializeAsString()});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("0123456789ab"));
  ASSERT_EQ(Log().size(), 1u);
  EXPECT_THAT(Log()[0],
              HasSubstr(absl::StrCat("refused the worker of incarnation 7: ",
                                     refused.error_message())));
}

TEST_F(ParameterServerServiceTest, LogsAWorkerThatIsRefusedAfterItsHello) {
  const std::string hello = GoodHello().SerializeAsString();
  EXPECT_EQ(Exchange({hello, hello}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(Log().size(), 1u);
  EXPECT_THAT(Log()[0], HasSubstr("incarnation 7: a second Hello"));
}

TEST_F(ParameterServerServiceTest, AnswersWhileTheLogCannotBeWritten) {
  Stop();
  server_.reset();
  const std::string path = MakeTestFolder() + "/stuck_log";
  FullPipe file(path);
  LogOptions options;
  options.standard_error = false;
  options.file = path;
  log_ = *Logger::Create(options);
  Start();
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_job_id("another");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Exchange({hello.SerializeAsString()}).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  file.ReadUntil("refused the worker of incarnation 7: ");
  log_->Flush();
}

TEST_F(ParameterServerServiceTest, DoesNotLogAWorkerThatMayJoinAgain) {
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_attempt(2);
  EXPECT_EQ(Exchange({hello.SerializeAsString()}).error_code(),
            grpc::StatusCode::ABORTED);
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(ParameterServerServiceTest, BoundsTheNumberOfLines) {
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_job_id("another");
  for (int i = 0; i < 101; ++i) {
    EXPECT_EQ(Exchange({hello.SerializeAsString()}).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  EXPECT_EQ(Log().size(), 100u);
}

// The worker is known, so the message says what is wrong with the bytes and
// does not ask what kind of program the peer is.
TEST_F(ParameterServerServiceTest, SaysWhatIsMalformedInAMessageOfAWorker) {
  const std::string hello = GoodHello().SerializeAsString();
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_payload(std::string(64, '\0'));
  std::string cut = contribution.SerializeAsString();
  cut.pop_back();
  grpc::Status refused = Exchange({hello, cut});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(std::string(refused.error_message()),
              HasSubstr("payload cut short"));
  refused = Exchange({hello, "GET / HTTP/1.1\r\n\r\n"});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(std::string(refused.error_message()),
              HasSubstr("not a WorkerMessage"));
}

}  // namespace
}  // namespace tributary
