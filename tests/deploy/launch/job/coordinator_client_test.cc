#include "deploy/launch/job/coordinator_client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// Answers with the given statuses, and then with OK.
class FakeCoordinator final : public Rendezvous::Service {
 public:
  explicit FakeCoordinator(std::vector<grpc::Status> answers = {})
      : answers_(std::move(answers)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status ReportEvent(grpc::ServerContext*, const EventReport* report,
                           EventReceipt*) override {
    absl::MutexLock lock(&mu_);
    reports_.push_back(*report);
    return reports_.size() <= answers_.size() ? answers_[reports_.size() - 1]
                                              : grpc::Status::OK;
  }

  // Waits for `count` reports.
  std::vector<EventReport> Reports(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto have = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return reports_.size() >= count;
    };
    EXPECT_TRUE(
        mu_.AwaitWithTimeout(absl::Condition(&have), absl::Seconds(60)));
    return reports_;
  }

 private:
  const std::vector<grpc::Status> answers_;
  absl::Mutex mu_;
  std::vector<EventReport> reports_ ABSL_GUARDED_BY(mu_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

JobEvent EventOf(const std::string& kind) {
  JobEvent event;
  event.set_kind(kind);
  return event;
}

std::vector<std::string> KindsOf(const std::vector<EventReport>& reports) {
  std::vector<std::string> kinds;
  for (const EventReport& report : reports) {
    kinds.push_back(report.event().kind());
  }
  return kinds;
}

TEST(CoordinatorClientTest, SendsEventsInOrderWithDifferentIds) {
  FakeCoordinator coordinator;
  const auto reporter = CoordinatorClient::Connect(coordinator.address(), {});
  reporter->Report(EventOf("first"));
  reporter->Report(EventOf("second"));
  const std::vector<EventReport> reports = coordinator.Reports(2);
  EXPECT_THAT(KindsOf(reports), ElementsAre("first", "second"));
  EXPECT_NE(reports[0].id(), 0u);
  EXPECT_NE(reports[0].id(), reports[1].id());
}

TEST(CoordinatorClientTest, RepeatsAReportUntilTheCoordinatorAnswers) {
  FakeCoordinator coordinator(
      {grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting"),
       grpc::Status(grpc::StatusCode::CANCELLED, "stopping")});
  const auto reporter = CoordinatorClient::Connect(coordinator.address(), {});
  reporter->Report(EventOf("first"));
  const std::vector<EventReport> reports = coordinator.Reports(3);
  EXPECT_THAT(KindsOf(reports), ElementsAre("first", "first", "first"));
  EXPECT_EQ(reports[0].id(), reports[2].id());
}

TEST(CoordinatorClientTest, DropsAReportThatIsRefused) {
  FakeCoordinator coordinator(
      {grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message")});
  const auto reporter = CoordinatorClient::Connect(coordinator.address(), {});
  reporter->Report(EventOf("first"));
  reporter->Report(EventOf("second"));
  EXPECT_THAT(KindsOf(coordinator.Reports(2)), ElementsAre("first", "second"));
}

TEST(CoordinatorClientTest, EndsWhileNobodyAnswers) {
  // Port 1 refuses connections.
  const auto reporter = CoordinatorClient::Connect("127.0.0.1:1", {});
  for (size_t i = 0; i < CoordinatorClient::kMaxWaiting + 10; ++i) {
    reporter->Report(EventOf("lost"));
  }
}

}  // namespace
}  // namespace tributary
