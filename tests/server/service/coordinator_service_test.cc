#include "server/service/coordinator_service.h"

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/thread_pool.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"

namespace tributary {
namespace {

class CoordinatorServiceTest : public testing::Test {
 protected:
  // `silence` must outlast any delay of a client that is not silent.
  explicit CoordinatorServiceTest(absl::Duration silence = absl::Minutes(10))
      : service_(&coordinator_, &records_, silence) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = Rendezvous::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(60));
  }
  ~CoordinatorServiceTest() override {
    server_->Shutdown();
    service_.AwaitIdle();
  }

  Coordinator coordinator_{Coordinator::Options(), &absl::Now,
                           [](const std::string&) {}};
  RunRecords records_{
      {[] { return std::make_unique<ThreadPool>(1); }, nullptr}};
  CoordinatorService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
};

class SilentClientTest : public CoordinatorServiceTest {
 protected:
  SilentClientTest() : CoordinatorServiceTest(absl::Milliseconds(20)) {}
};

TEST_F(SilentClientTest, IsSentAway) {
  const auto stream = stub_->Membership(&context_);
  CoordinatorOrder order;
  EXPECT_FALSE(stream->Read(&order));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(std::string(status.error_message()),
              testing::HasSubstr("no message arrived"));
}

TEST_F(SilentClientTest, IsSentAwayAlsoIfItIsAServer) {
  const auto stream = stub_->Enlistment(&context_);
  ServerOrder order;
  EXPECT_FALSE(stream->Read(&order));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

// A wrong first word is an answer of its own, and at once.
TEST_F(CoordinatorServiceTest, TellsWhoSpeaksOutOfTurn) {
  const auto stream = stub_->Membership(&context_);
  WorkerReport report;
  report.mutable_claim();
  stream->Write(report);
  CoordinatorOrder order;
  EXPECT_FALSE(stream->Read(&order));
  EXPECT_EQ(stream->Finish().error_message(), "the first report must be Join");
}

TEST_F(CoordinatorServiceTest, AnswersRequestsForRecords) {
  records_.Begin({"run-1", "gpt", "steps: 5", "/nonexistent"});
  RecordsReply reply;
  ASSERT_TRUE(stub_->GetRecords(&context_, {}, &reply).ok());
  EXPECT_EQ(reply.job(), "steps: 5");
  // The file is missing.
  records_.EndChange(1);
  grpc::ClientContext context;
  EXPECT_EQ(stub_->GetRecords(&context, {}, &reply).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(CoordinatorServiceTest, PutsReportedEventsIntoTheStatus) {
  EventReport report;
  report.set_id(1);
  report.mutable_event()->set_kind("launcher_lost");
  report.mutable_event()->set_severity(JobEvent::WARNING);
  report.mutable_event()->set_message("lost");
  EventReceipt receipt;
  ASSERT_TRUE(stub_->ReportEvent(&context_, report, &receipt).ok());
  grpc::ClientContext status_context;
  StatusReply status;
  ASSERT_TRUE(stub_->GetStatus(&status_context, {}, &status).ok());
  ASSERT_EQ(status.event_size(), 1);
  EXPECT_EQ(status.event(0).kind(), "launcher_lost");
  grpc::ClientContext bad_context;
  report.mutable_event()->set_kind("A");
  EXPECT_EQ(stub_->ReportEvent(&bad_context, report, &receipt).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tributary
