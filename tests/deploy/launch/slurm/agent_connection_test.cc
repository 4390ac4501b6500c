#include "deploy/launch/slurm/agent_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::_;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kKey(64, 'k');
const std::string kNonce(64, 'n');

LineSeal Launcher() { return LineSeal(kKey, kNonce, AgentRole::kLauncher); }
LineSeal Agent() { return LineSeal(kKey, kNonce, AgentRole::kAgent); }

TEST(LineSealTest, OpensThePeersLinesInOrder) {
  LineSeal launcher = Launcher();
  LineSeal agent = Agent();
  for (const char* text : {"one", "", "two words"}) {
    EXPECT_EQ(*agent.Open(launcher.Seal(text)), text);
    EXPECT_EQ(*launcher.Open(agent.Seal(text)), text);
  }
}

TEST(LineSealTest, RefusesLinesThatAreNotThePeers) {
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied, _);
  LineSeal launcher = Launcher();
  const std::string first = launcher.Seal("first");
  const std::string second = launcher.Seal("second");
  LineSeal agent = Agent();
  EXPECT_THAT(agent.Open("").status(), refused);
  EXPECT_THAT(agent.Open("first").status(), refused);
  EXPECT_THAT(agent.Open(second).status(), refused);       // Not its turn.
  EXPECT_THAT(agent.Open(first + "!").status(), refused);  // Changed.
  EXPECT_THAT(agent.Open(Agent().Seal("first")).status(), refused);  // Own.
  LineSeal stranger(std::string(64, 'x'), kNonce, AgentRole::kLauncher);
  EXPECT_THAT(agent.Open(stranger.Seal("first")).status(), refused);
  LineSeal earlier(kKey, std::string(64, 'm'), AgentRole::kLauncher);
  EXPECT_THAT(agent.Open(earlier.Seal("first")).status(), refused);
  EXPECT_TRUE(agent.Open(first).ok());
  EXPECT_THAT(agent.Open(first).status(), refused);  // Repeated.
}

class AgentConnectionTest : public testing::Test {
 protected:
  AgentConnectionTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0);
  }
  ~AgentConnectionTest() override { close(fds_[1]); }

  // Bytes that the peer has sent.
  void Send(const std::string& text) {
    ASSERT_EQ(write(fds_[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

  int fds_[2];
};

TEST_F(AgentConnectionTest, CarriesMessagesAndHidesHeartbeats) {
  AgentConnection launcher(LineSocket(fds_[0]), Launcher());
  AgentConnection agent(LineSocket(dup(fds_[1])), Agent());
  agent.Beat(absl::UnixEpoch());
  agent.Send({{"signal", 15}});
  const std::vector<nlohmann::json> messages = launcher.Receive();
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0]["signal"], 15);
  EXPECT_THAT(agent.Receive(), IsEmpty());
  EXPECT_TRUE(launcher.open());
}

TEST_F(AgentConnectionTest, ClosesWhenAStrangerWrites) {
  AgentConnection launcher(LineSocket(fds_[0]), Launcher());
  Send("{\"signal\":15}\n");
  EXPECT_THAT(launcher.Receive(), IsEmpty());
  EXPECT_FALSE(launcher.open());
}

TEST_F(AgentConnectionTest, ClosesWhenALineIsTooLong) {
  AgentConnection launcher(LineSocket(fds_[0]), Launcher());
  const std::string part(1 << 16, 'x');
  for (int i = 0; i < 100 && launcher.open(); ++i) {
    Send(part);
    launcher.Receive();
  }
  EXPECT_FALSE(launcher.open());
}

TEST_F(AgentConnectionTest, ClosesWhenThePeerIsSilent) {
  AgentConnection launcher(LineSocket(fds_[0]), Launcher());
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < AgentConnection::kMostSilentBeats; ++i) {
    launcher.Beat(now);
    now += AgentConnection::kBeat;
  }
  EXPECT_TRUE(launcher.open());
  launcher.Beat(now);
  EXPECT_FALSE(launcher.open());
}

TEST_F(AgentConnectionTest, ToleratesATimeInWhichThisProcessDidNotRun) {
  AgentConnection launcher(LineSocket(fds_[0]), Launcher());
  launcher.Beat(absl::UnixEpoch());
  launcher.Beat(absl::UnixEpoch() + absl::Hours(10));
  EXPECT_TRUE(launcher.open());
}

}  // namespace
}  // namespace tributary
