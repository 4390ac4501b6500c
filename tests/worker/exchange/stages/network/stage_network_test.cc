#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/stages/stage_link_conformance.h"
#include "tests/worker/exchange/stages/stage_pair.h"
#include "worker/exchange/stages/network/stage_connection.h"
#include "worker/exchange/stages/network/stage_connector.h"
#include "worker/exchange/stages/network/stage_host.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr int64_t kReceiver = 9;

bool Never() { return false; }

// A worker that receives over gRPC, and what a sender needs to reach it.
class HostedWorker {
 public:
  explicit HostedWorker(const TransferPlan& plan, const Security& security = {})
      : plan_(plan), admission_({"job", "model", plan.signature(), kReceiver}) {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    inbox_.BeginEpoch(1, 0);
    admission_.SetPeers(1, {{StagePair::kSender, "secret"}});
    StageHost::Options options;
    options.listen = "127.0.0.1:0";
    options.security = security;
    options.limits = kDefaultLimits;
    options.log = log_.get();
    host_ = *StageHost::Start(options);
  }

  void Serve() { host_->Serve({&plan_, &inbox_, &admission_}); }
  void End() { host_.reset(); }

  StageConnection Connection(ExchangeSpec::Transport transport,
                             const Security& security = {}) const {
    StageConnection connection;
    connection.plan = &plan_;
    connection.hello.set_job_id("job");
    connection.hello.set_signature("model");
    connection.hello.set_plan_signature(plan_.signature());
    connection.hello.set_sender(StagePair::kSender);
    connection.hello.set_receiver(kReceiver);
    connection.hello.set_secret("secret");
    connection.hello.set_epoch(1);
    connection.address = host_->address();
    connection.local = host_->local_address();
    connection.transport = transport;
    connection.connect = GrpcStageConnector(security);
    return connection;
  }
  TransferInbox* inbox() { return &inbox_; }

 private:
  const TransferPlan& plan_;
  std::unique_ptr<Logger> log_;
  TransferInbox inbox_;
  StageAdmission admission_;
  std::unique_ptr<StageHost> host_;
};

class NetworkPair final : public StagePair {
 public:
  NetworkPair(const TransferPlan& plan, ExchangeSpec::Transport transport)
      : worker_(plan) {
    worker_.Serve();
    auto link = OpenStageLink(worker_.Connection(transport), &Never);
    EXPECT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
    EXPECT_EQ(link_->in_memory(), transport == ExchangeSpec::MEMORY);
    link_->BeginEpoch(1, 0);
  }

  StageLink* link() override { return link_.get(); }
  TransferInbox* inbox() override { return worker_.inbox(); }
  void LoseSender() override { link_.reset(); }
  void LoseReceiver() override { worker_.End(); }

 private:
  HostedWorker worker_;
  std::unique_ptr<StreamStageLink> link_;
};

template <ExchangeSpec::Transport kTransport>
std::unique_ptr<StagePair> ConnectBy(const TransferPlan& plan) {
  return std::make_unique<NetworkPair>(plan, kTransport);
}

const StageTransport kTransports[] = {
    {"SharedMemory", &ConnectBy<ExchangeSpec::MEMORY>},
    {"UnixSocket", &ConnectBy<ExchangeSpec::UNIX_SOCKET>},
    {"Tcp", &ConnectBy<ExchangeSpec::WIRE>}};

INSTANTIATE_TEST_SUITE_P(BetweenProcesses, StageLinkConformance,
                         testing::ValuesIn(kTransports), [](const auto& info) {
                           return std::string(info.param.name);
                         });

class StageNetworkTest : public testing::Test {
 protected:
  static std::string Folder(const std::string& name) {
    const std::string path = absl::StrCat(
        testing::TempDir(), "/stages-",
        testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        name);
    std::filesystem::create_directories(path);
    return path;
  }
  // Opens a link, and returns the error.
  static absl::Status Open(const StageConnection& connection) {
    return OpenStageLink(connection, &Never).status();
  }

  const TransferPlan plan_ =
      *TransferPlan::Create({{0, StageTransfer::ACTIVATION, 100, 2}}, 4);
};

TEST_F(StageNetworkTest, WaitsForAWorkerThatHasNoStageYet) {
  HostedWorker worker(plan_);
  // The first try is refused: nobody serves yet.
  std::atomic<int> asked{0};
  absl::StatusOr<std::unique_ptr<StreamStageLink>> link =
      OpenStageLink(worker.Connection(ExchangeSpec::AUTO), [&] {
        if (++asked == 3) worker.Serve();
        return false;
      });
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE((*link)->in_memory());
}

TEST_F(StageNetworkTest, StopsWaitingByRequest) {
  HostedWorker worker(plan_);
  std::atomic<int> asked{0};
  EXPECT_THAT(OpenStageLink(worker.Connection(ExchangeSpec::WIRE),
                            [&] { return ++asked > 5; }),
              StatusIs(absl::StatusCode::kCancelled));
}

// A new assignment may name another receiver. The sender must not wait for the
// old one until the timeout.
TEST_F(StageNetworkTest, StopsWaitingForAReceiverThatDoesNotAnswer) {
  HostedWorker worker(plan_);
  StageConnection connection = worker.Connection(ExchangeSpec::WIRE);
  connection.connect = [](const std::string&, absl::Time,
                          const std::function<bool()>&) {
    return absl::StatusOr<StageCaller>([] {
      return std::make_unique<FakeClientStream<StageReply, StageMessage>>();
    });
  };
  connection.timeout = absl::InfiniteDuration();
  int asked = 0;
  EXPECT_THAT(OpenStageLink(connection, [&] { return ++asked > 3; }),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(StageNetworkTest, NamesAWorkerThatCannotBeReached) {
  std::optional<HostedWorker> worker(std::in_place, plan_);
  StageConnection connection = worker->Connection(ExchangeSpec::WIRE);
  worker.reset();
  connection.timeout = absl::Milliseconds(200);
  EXPECT_THAT(Open(connection),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 9")));
}

TEST_F(StageNetworkTest, ReturnsTheRefusalOfTheReceiver) {
  HostedWorker worker(plan_);
  worker.Serve();
  StageConnection connection = worker.Connection(ExchangeSpec::WIRE);
  connection.hello.set_secret("of another worker");
  EXPECT_THAT(Open(connection), StatusIs(absl::StatusCode::kPermissionDenied,
                                         HasSubstr("secret")));
  connection = worker.Connection(ExchangeSpec::WIRE);
  connection.hello.set_signature("another");
  EXPECT_THAT(Open(connection),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  connection = worker.Connection(ExchangeSpec::WIRE);
  connection.hello.set_epoch(0);
  EXPECT_THAT(Open(connection), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(StageNetworkTest, RefusesATransportThatIsImpossible) {
  HostedWorker worker(plan_);
  worker.Serve();
  for (const auto transport :
       {ExchangeSpec::MEMORY, ExchangeSpec::UNIX_SOCKET}) {
    StageConnection connection = worker.Connection(transport);
    connection.local.set_host("another host");
    EXPECT_THAT(Open(connection),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(ExchangeSpec::Transport_Name(transport))));
  }
  StageConnection connection = worker.Connection(ExchangeSpec::AUTO);
  connection.local.set_host("another host");
  const auto link = OpenStageLink(connection, &Never);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_FALSE((*link)->in_memory());
}

TEST_F(StageNetworkTest, WorkersAuthenticateEachOther) {
  const std::string tls = Folder("tls");
  WriteTlsDirectory(tls);
  const Security security = TestSecurity(tls, Role::kWorker, "token");
  HostedWorker worker(plan_, security);
  worker.Serve();
  const auto transport = ExchangeSpec::WIRE;
  {
    const auto link =
        OpenStageLink(worker.Connection(transport, security), &Never);
    ASSERT_TRUE(link.ok()) << link.status();
    ASSERT_TRUE((*link)->Send(1, KeyAt(0, 0), {}, {"encrypted"}).ok());
    const auto received =
        worker.inbox()->Receive(1, StagePair::kSender, KeyAt(0, 0));
    ASSERT_TRUE(received.ok()) << received.status();
  }
  EXPECT_THAT(Open(worker.Connection(
                  transport, TestSecurity(tls, Role::kServer, "token"))),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(Open(worker.Connection(
                  transport, TestSecurity(tls, Role::kWorker, "another"))),
              StatusIs(absl::StatusCode::kUnauthenticated));
  const std::string other = Folder("other-authority");
  WriteTlsDirectory(other);
  EXPECT_THAT(Open(worker.Connection(
                  transport, TestSecurity(other, Role::kWorker, "token"))),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(StageNetworkTest, AServersCertificateIsNotAWorkers) {
  const std::string tls = Folder("tls");
  WriteTlsDirectory(tls);
  HostedWorker worker(plan_, TestSecurity(tls, Role::kServer));
  worker.Serve();
  EXPECT_THAT(Open(worker.Connection(ExchangeSpec::WIRE,
                                     TestSecurity(tls, Role::kWorker))),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("worker.tributary")));
}

// A worker of a pipeline of two stages.
class PipelineWorker {
 public:
  PipelineWorker(const TransferPlan& plan, int64_t incarnation,
                 absl::Duration patience) {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    PipelinePeers::Options options;
    options.job = {"job", "model", plan.signature(), incarnation};
    options.patience = patience;
    options.open = MakeStageOpener(&plan, ExchangeSpec::AUTO,
                                   GrpcStageConnector(/*security=*/{}));
    peers_ = std::make_unique<PipelinePeers>(&plan, options);
    StageHost::Options listen;
    listen.listen = "127.0.0.1:0";
    listen.limits = kDefaultLimits;
    listen.log = log_.get();
    host_ = *StageHost::Start(listen);
    host_->Serve(peers_->receiver());
  }

  PipelinePeer Describe(int64_t incarnation, int stage) const {
    return {incarnation,
            stage,
            stage + 1,
            host_->address(),
            host_->local_address().host(),
            host_->local_address().address(),
            "secret"};
  }
  PipelinePeers* operator->() { return peers_.get(); }

 private:
  std::unique_ptr<Logger> log_;
  std::unique_ptr<PipelinePeers> peers_;
  std::unique_ptr<StageHost> host_;
};

TEST_F(StageNetworkTest, PeersConnectAndDetectALoss) {
  const TransferPlan plan =
      *TransferPlan::Create({{0, StageTransfer::ACTIVATION, 100, 2},
                             {0, StageTransfer::ACTIVATION_GRADIENT, 100, 2}},
                            4);
  PipelineWorker first(plan, 1, absl::Milliseconds(1));
  std::optional<PipelineWorker> second(std::in_place, plan, 2,
                                       absl::InfiniteDuration());
  const std::vector<PipelinePeer> peers = {first.Describe(1, 0),
                                           second->Describe(2, 1)};
  const TransferKey forward = KeyAt(0, 0);
  const TransferKey backward = KeyAt(0, 0, StageTransfer::ACTIVATION_GRADIENT);
  first->BeginEpoch(1, 0, peers);
  // The second worker learns of its stage after the first one has called it.
  absl::Status sent;
  std::thread sender([&] { sent = first->Send(1, 1, forward, {}, {"there"}); });
  (*second)->BeginEpoch(1, 0, peers);
  EXPECT_TRUE((*second)->Receive(1, 0, forward).ok());
  sender.join();
  EXPECT_TRUE(sent.ok()) << sent;
  EXPECT_TRUE((*second)->Send(1, 0, backward, {}, {"and back"}).ok());
  const auto received = first->Receive(1, 1, backward);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(absl::string_view(received->data, received->bytes), "and back");
  second.reset();
  EXPECT_THAT(first->Receive(1, 1, KeyAt(0, 1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 2")));
}

}  // namespace
}  // namespace tributary
