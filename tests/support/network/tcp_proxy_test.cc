#include "tests/support/network/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Echoes what clients send, and records it by connection.
class EchoServer {
 public:
  EchoServer() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~EchoServer() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close(listener_);
    for (std::thread& thread : echoing_) thread.join();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Waits for `count` ended connections and returns the bytes that each sent,
  // in the order in which they ended.
  std::vector<std::string> AwaitHeard(size_t count) {
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return heard_.size() >= count;
    };
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(10));
    return heard_;
  }

 private:
  void Accept() {
    while (true) {
      const int socket = accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      echoing_.emplace_back([this, socket] { Echo(socket); });
    }
  }
  void Echo(int socket) {
    std::string heard;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = recv(socket, buffer, sizeof(buffer), 0)) > 0) {
      heard.append(buffer, static_cast<size_t>(got));
      if (send(socket, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) < 0) {
        break;
      }
    }
    close(socket);
    absl::MutexLock lock(&mu_);
    heard_.push_back(heard);
  }

  int listener_ = -1;
  int port_ = 0;
  std::thread accepting_;
  std::vector<std::thread> echoing_;
  absl::Mutex mu_;
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mu_);
};

class Client {
 public:
  explicit Client(const TcpProxy& proxy) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(
        proxy.address().substr(proxy.address().rfind(':') + 1), &port));
    const sockaddr_in address = Loopback(port);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
  }
  ~Client() { Close(); }

  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  void Say(const std::string& bytes) {
    send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void End() { shutdown(socket_, SHUT_WR); }
  // Reads this many bytes, or fewer if the connection ends before.
  std::string Hear(size_t bytes) {
    std::string heard(bytes, '\0');
    size_t done = 0;
    while (done < bytes) {
      const ssize_t got = recv(socket_, &heard[done], bytes - done, 0);
      error_ = got < 0 ? errno : 0;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    heard.resize(done);
    return heard;
  }
  bool HearsNothingFor(absl::Duration time) {
    const timeval timeout = absl::ToTimeval(time);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    const bool nothing = Hear(1).empty() && error_ == EAGAIN;
    const timeval none = {};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    return nothing;
  }
  // 0, or why the last Hear returned fewer bytes.
  int error() const { return error_; }

 private:
  int socket_ = -1;
  int error_ = 0;
};

class TcpProxyTest : public testing::Test {
 protected:
  TcpProxyTest() { proxy_.SetServer(server_.address()); }

  // Waits until the proxy has delivered `bytes` to the server.
  void AwaitDelivered(int64_t bytes) const {
    while (proxy_.statistics().bytes[TcpProxy::kToServer] < bytes) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  EchoServer server_;
  TcpProxy proxy_;
};

constexpr absl::Duration kShort = absl::Milliseconds(50);

TEST_F(TcpProxyTest, PassesBytesOnUnchanged) {
  Client client(proxy_);
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes.push_back(static_cast<char>(i * 31));
  std::thread sender([&] {
    client.Say(bytes);
    client.End();
  });
  EXPECT_EQ(client.Hear(bytes.size() + 1), bytes);
  EXPECT_EQ(client.error(), 0);
  sender.join();
  const TcpProxy::Statistics statistics = proxy_.statistics();
  EXPECT_EQ(statistics.connections, 1);
  EXPECT_EQ(statistics.bytes[TcpProxy::kToServer], 300000);
  EXPECT_EQ(statistics.bytes[TcpProxy::kToClient], 300000);
  EXPECT_THAT(server_.AwaitHeard(1), ElementsAre(bytes));
}

TEST_F(TcpProxyTest, DelaysEachDirectionAndKeepsTheOrder) {
  proxy_.SetDelay(TcpProxy::kToServer, absl::Milliseconds(60),
                  absl::Milliseconds(40));
  proxy_.SetDelay(TcpProxy::kToClient, absl::Milliseconds(30),
                  absl::ZeroDuration());
  Client client(proxy_);
  const absl::Time begin = absl::Now();
  std::string all;
  for (int i = 0; i < 50; ++i) {
    const std::string piece = absl::StrCat("piece ", i, ";");
    client.Say(piece);
    all += piece;
  }
  EXPECT_EQ(client.Hear(all.size()), all);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(50));
}

TEST_F(TcpProxyTest, AThrottledLinkTakesItsTime) {
  proxy_.SetRate(TcpProxy::kToServer, 100000);
  Client client(proxy_);
  const absl::Time begin = absl::Now();
  client.Say(std::string(22000, 'x'));
  EXPECT_THAT(client.Hear(22000), SizeIs(22000));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(195));
}

TEST_F(TcpProxyTest, HoldsOneDirectionAndLosesNothing) {
  Client client(proxy_);
  proxy_.SetHeld(TcpProxy::kToClient, true);
  client.Say("ab");
  AwaitDelivered(2);
  EXPECT_TRUE(client.HearsNothingFor(kShort));
  proxy_.SetHeld(TcpProxy::kToServer, true);
  proxy_.SetHeld(TcpProxy::kToClient, false);
  EXPECT_EQ(client.Hear(2), "ab");
  client.Say("c");
  EXPECT_TRUE(client.HearsNothingFor(kShort));
  proxy_.SetHeld(TcpProxy::kToServer, false);
  EXPECT_EQ(client.Hear(1), "c");
}

TEST_F(TcpProxyTest, HoldsOneConnection) {
  Client first(proxy_), second(proxy_);
  first.Say("1");
  EXPECT_EQ(first.Hear(1), "1");
  second.Say("2");
  EXPECT_EQ(second.Hear(1), "2");
  EXPECT_THAT(proxy_.OpenConnections(), ElementsAre(0, 1));
  proxy_.SetConnectionHeld(0, true);
  first.Say("x");
  second.Say("y");
  EXPECT_EQ(second.Hear(1), "y");
  EXPECT_TRUE(first.HearsNothingFor(kShort));
  proxy_.SetConnectionHeld(0, false);
  EXPECT_EQ(first.Hear(1), "x");
}

TEST_F(TcpProxyTest, CutsInTheMidst) {
  Client client(proxy_);
  client.Say("12");
  EXPECT_EQ(client.Hear(2), "12");
  proxy_.CutAfter(TcpProxy::kToServer, 3);
  client.Say("345678");
  client.Hear(100);
  EXPECT_THAT(server_.AwaitHeard(1), ElementsAre("12345"));
  EXPECT_EQ(proxy_.statistics().faults, 1);
  EXPECT_THAT(proxy_.OpenConnections(), IsEmpty());
  // The fault happens only once.
  Client next(proxy_);
  next.Say("345678");
  EXPECT_EQ(next.Hear(6), "345678");
}

TEST_F(TcpProxyTest, ResetsInTheMidst) {
  Client client(proxy_);
  proxy_.ResetAfter(TcpProxy::kToClient, 3);
  client.Say("123456");
  client.Hear(100);
  EXPECT_EQ(client.error(), ECONNRESET);
  EXPECT_EQ(proxy_.statistics().bytes[TcpProxy::kToClient], 3);
}

TEST_F(TcpProxyTest, ResetsAll) {
  Client client(proxy_);
  client.Say("1");
  EXPECT_EQ(client.Hear(1), "1");
  proxy_.ResetAll();
  EXPECT_EQ(client.Hear(1), "");
  EXPECT_EQ(client.error(), ECONNRESET);
}

TEST_F(TcpProxyTest, FlipsOneBit) {
  Client client(proxy_);
  proxy_.FlipAfter(TcpProxy::kToServer, 3);
  client.Say("@@@@@");
  EXPECT_EQ(client.Hear(5), "@@@P@");
  client.Say("@@@@@");
  EXPECT_EQ(client.Hear(5), "@@@@@");
}

TEST_F(TcpProxyTest, ReplaysWhatAClientHasSaid) {
  proxy_.Record();
  Client client(proxy_);
  client.Say("hello");
  EXPECT_EQ(client.Hear(5), "hello");
  EXPECT_EQ(proxy_.Recorded(0), "hello");
  EXPECT_EQ(proxy_.Replay(proxy_.Recorded(0)), 1);
  client.Say("!");
  // The client receives only its own echo.
  EXPECT_EQ(client.Hear(1), "!");
  AwaitDelivered(11);
  proxy_.ResetAll();
  EXPECT_THAT(server_.AwaitHeard(2),
              testing::UnorderedElementsAre("hello!", "hello"));
}

TEST_F(TcpProxyTest, RefusesNewConnections) {
  Client before(proxy_);
  before.Say("1");
  EXPECT_EQ(before.Hear(1), "1");
  proxy_.SetRefusing(true);
  Client refused(proxy_);
  EXPECT_EQ(refused.Hear(1), "");
  EXPECT_EQ(refused.error(), ECONNRESET);
  EXPECT_EQ(proxy_.statistics().refused, 1);
  before.Say("2");
  EXPECT_EQ(before.Hear(1), "2");
  proxy_.SetRefusing(false);
  Client after(proxy_);
  after.Say("3");
  EXPECT_EQ(after.Hear(1), "3");
}

TEST(TcpProxyWithoutServerTest, Refuses) {
  TcpProxy proxy;
  Client client(proxy);
  EXPECT_EQ(client.Hear(1), "");
  EXPECT_EQ(client.error(), ECONNRESET);
  EXPECT_EQ(proxy.Replay("x"), -1);
}

}  // namespace
}  // namespace tributary
