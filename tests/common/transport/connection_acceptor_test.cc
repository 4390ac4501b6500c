#include "common/transport/connection_acceptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

class Sockets {
 public:
  ~Sockets() {
    for (const int socket : sockets_) close(socket);
  }
  void Add(int socket) {
    absl::MutexLock lock(&mu_);
    sockets_.push_back(socket);
  }
  // Whether there are so many within a generous time.
  bool Await(size_t count) {
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return sockets_.size() >= count;
    };
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
  }
  size_t size() {
    absl::MutexLock lock(&mu_);
    return sockets_.size();
  }

 private:
  absl::Mutex mu_;
  std::vector<int> sockets_ ABSL_GUARDED_BY(mu_);
};

class ConnectionAcceptorTest : public testing::Test {
 protected:
  ConnectionAcceptorTest() {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
  }

  void Start(const Limits& limits) {
    acceptor_ = std::make_unique<ConnectionAcceptor>(limits, log_.get());
    port_ = acceptor_
                ->ListenTcp("127.0.0.1:0",
                            [this](int socket) { accepted_.Add(socket); })
                .value();
    acceptor_->Start();
  }

  // Connects from 127.0.0.`host`; -1 and errno if that does not work.
  int Connect(int host = 1) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval timeout = {20, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7f000000u + host);
    bind(client, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    EXPECT_EQ(
        connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    clients_.Add(client);
    return client;
  }

  // The server has hung up.
  static bool IsTurnedAway(int client) {
    char byte = 0;
    const ssize_t result = recv(client, &byte, 1, 0);
    return result == 0 || (result < 0 && errno == ECONNRESET);
  }

  std::unique_ptr<Logger> log_;
  Sockets clients_;
  Sockets accepted_;
  int port_ = 0;
  // The last member: its thread uses the others.
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

TEST_F(ConnectionAcceptorTest, HandsConnectionsOver) {
  Start(Limits());
  for (int i = 0; i < 10; ++i) Connect();
  EXPECT_TRUE(accepted_.Await(10));
}

TEST_F(ConnectionAcceptorTest, OnePeerCannotTakeEverything) {
  Limits limits;
  limits.connections_per_peer = 3;
  Start(limits);
  for (int i = 0; i < 3; ++i) Connect();
  EXPECT_TRUE(IsTurnedAway(Connect()));
  EXPECT_EQ(accepted_.size(), 3u);
  Connect(/*host=*/2);
  EXPECT_TRUE(accepted_.Await(4));
}

TEST_F(ConnectionAcceptorTest, AUserCannotKeepOutTheOtherUsersOfThisMachine) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a different user";
  Limits limits;
  limits.connections_per_peer = 3;
  Start(limits);
  Connect();
  ASSERT_TRUE(accepted_.Await(1));
  // In the child, which has no thread of the acceptor, only system calls.
  constexpr uid_t kOther = 54321;
  const pid_t child = fork();
  if (child == 0) {
    bool kept_out = setuid(kOther) == 0;
    for (int i = 0; i < 3; ++i) kept_out = kept_out && Connect() >= 0;
    _exit(kept_out && IsTurnedAway(Connect()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Connect();
  EXPECT_TRUE(accepted_.Await(5));
}

TEST_F(ConnectionAcceptorTest, HasALimitInAll) {
  Limits limits;
  limits.connections = 4;
  Start(limits);
  for (int host = 1; host <= 4; ++host) Connect(host);
  EXPECT_TRUE(IsTurnedAway(Connect(5)));
}

TEST_F(ConnectionAcceptorTest, DoesNotShareAPort) {
  Start(Limits());
  ConnectionAcceptor other(Limits(), log_.get());
  EXPECT_EQ(other.ListenTcp(absl::StrCat("127.0.0.1:", port_), [](int) {})
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ConnectionAcceptorTest, RefusesWhatIsNoAddress) {
  ConnectionAcceptor other(Limits(), log_.get());
  EXPECT_EQ(other.ListenTcp("here", [](int) {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      other.ListenTcp("no-such-host.invalid:1", [](int) {}).status().code(),
      absl::StatusCode::kUnavailable);
  EXPECT_THAT(other.ListenUnix("/a/path", true, [](int) {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("'/a/path'")));
}

// CVE-2023-4785: gRPC's own listener does not survive this.
TEST_F(ConnectionAcceptorTest, OutlivesTheLackOfDescriptors) {
  Start(Limits());
  Connect();
  ASSERT_TRUE(accepted_.Await(1));
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = client + 1;
  setrlimit(RLIMIT_NOFILE, &none);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  EXPECT_EQ(
      connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_TRUE(IsTurnedAway(client));
  setrlimit(RLIMIT_NOFILE, &before);
  close(client);
  Connect();
  EXPECT_TRUE(accepted_.Await(2));
}

TEST_F(ConnectionAcceptorTest, KeepsDescriptorsForTheProcess) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  const ConnectionAcceptor acceptor(Limits(), log_.get());
  EXPECT_EQ(acceptor.most_connections(), 128);
  RaiseDescriptorLimit(/*connections=*/512);
  rlimit raised = {};
  getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_GE(raised.rlim_cur, 512u);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ConnectionAcceptorTest, StopsTwice) {
  Start(Limits());
  acceptor_->Stop();
  acceptor_->Stop();
}

}  // namespace
}  // namespace tributary
