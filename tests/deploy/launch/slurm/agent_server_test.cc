#include "deploy/launch/slurm/agent_server.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::AnyOf;

std::map<Role, Security> Credentials() {
  const absl::Time now = absl::Now();
  return *MakeJobSecurity(now - absl::Hours(1), now + absl::Hours(1));
}

// Plays an agent.
class Agent final : public ClientSession<AgentOrder, AgentReport> {
 public:
  Agent(int port, const Security& security)
      : stream_(CreateChannel(absl::StrCat("127.0.0.1:", port), security),
                "/tributary.NodeAgents/Attend") {
    stream_.Start(this);
    AgentReport report;
    report.mutable_hello()->set_node(7);
    stream_.Send(report);
  }
  ~Agent() override { (void)End(); }

  absl::Status End() {
    stream_.Cancel();
    return AwaitEnd();
  }
  absl::Status AwaitEnd() { return stream_.AwaitDone(); }
  int AwaitOrder() {
    absl::MutexLock lock(&mu_);
    const auto ordered = [this] { return signal_ != 0; };
    mu_.Await(absl::Condition(&ordered));
    return signal_;
  }

 private:
  bool OnMessage(const AgentOrder& order, ReceivedPayload) override {
    absl::MutexLock lock(&mu_);
    signal_ = order.signal().signal();
    return true;
  }
  void OnGone(const absl::Status&) override {}

  absl::Mutex mu_;
  int signal_ = 0;
  GrpcClientStream<AgentOrder, AgentReport> stream_;
};

class AgentServerTest : public testing::Test {
 protected:
  // Waits for the next event.
  AgentServer::Event Next() {
    while (events_.empty()) {
      events_ = server_->Take();
      std::this_thread::yield();
    }
    AgentServer::Event event = events_.front();
    events_.erase(events_.begin());
    return event;
  }

  const std::map<Role, Security> credentials_ = Credentials();
  const std::unique_ptr<AgentServer> server_ =
      *AgentServer::Start(credentials_.at(Role::kServer), /*agents=*/2);
  std::vector<AgentServer::Event> events_;
};

TEST_F(AgentServerTest, PassesReportsAndOrders) {
  Agent agent(server_->port(), credentials_.at(Role::kWorker));
  const AgentServer::Event hello = Next();
  EXPECT_EQ(hello.report.hello().node(), 7);
  AgentOrder order;
  order.mutable_signal()->set_signal(15);
  server_->Send(hello.call, order);
  EXPECT_EQ(agent.AwaitOrder(), 15);
  (void)agent.End();
  const AgentServer::Event gone = Next();
  EXPECT_EQ(gone.call, hello.call);
  EXPECT_TRUE(gone.gone);
  server_->Send(hello.call, order);  // Has no effect.
}

TEST_F(AgentServerTest, EndsACallThatItCloses) {
  Agent agent(server_->port(), credentials_.at(Role::kWorker));
  server_->Close(Next().call);
  EXPECT_EQ(agent.AwaitEnd().code(), absl::StatusCode::kCancelled);
}

TEST_F(AgentServerTest, RefusesStrangers) {
  for (const Security& security : {Security(), Credentials().at(Role::kWorker),
                                   credentials_.at(Role::kServer)}) {
    Agent stranger(server_->port(), security);
    EXPECT_THAT(stranger.AwaitEnd().code(),
                AnyOf(absl::StatusCode::kUnavailable,
                      absl::StatusCode::kUnauthenticated,
                      absl::StatusCode::kPermissionDenied));
  }
  EXPECT_TRUE(server_->Take().empty());
}

}  // namespace
}  // namespace tributary
