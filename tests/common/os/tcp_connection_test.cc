#include "common/os/tcp_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Both ends of a connection over the loopback address of a family.
class TcpConnectionTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    listener_ = socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    const bool is_v4 = GetParam() == AF_INET;
    const auto* any = is_v4 ? reinterpret_cast<sockaddr*>(&v4)
                            : reinterpret_cast<sockaddr*>(&v6);
    if (bind(listener_, any, is_v4 ? sizeof(v4) : sizeof(v6)) != 0) {
      GTEST_SKIP() << "this machine has no such address";
    }
    ASSERT_EQ(listen(listener_, 1), 0);
    ASSERT_EQ(
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &size_),
        0);
  }

  void TearDown() override {
    for (const int socket : {listener_, near_, far_}) {
      if (socket >= 0) close(socket);
    }
  }

  bool Connect() {
    far_ = socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(far_, reinterpret_cast<sockaddr*>(&address_), size_) != 0) {
      return false;
    }
    near_ = accept(listener_, nullptr, nullptr);
    return near_ >= 0;
  }

  int listener_ = -1;
  int near_ = -1;
  int far_ = -1;
  sockaddr_storage address_ = {};
  socklen_t size_ = sizeof(address_);
};

INSTANTIATE_TEST_SUITE_P(Families, TcpConnectionTest,
                         testing::Values(AF_INET, AF_INET6));

TEST_P(TcpConnectionTest, KnowsTheUserOfItsPeer) {
  ASSERT_TRUE(Connect());
  EXPECT_EQ(UserOfTcpPeer(near_), geteuid());
  EXPECT_EQ(UserOfTcpPeer(far_), geteuid());
}

TEST_P(TcpConnectionTest, CountsTheBytesThatHaveArrived) {
  ASSERT_TRUE(Connect());
  EXPECT_EQ(BytesReceived(near_), 0u);
  ASSERT_EQ(send(far_, "hello", 5, 0), 5);
  char byte = 0;
  ASSERT_EQ(recv(near_, &byte, 1, 0), 1);
  EXPECT_EQ(BytesReceived(near_), 5u);
}

TEST(TcpConnectionOfAnotherKindTest, KnowsNothingOfAUnixSocket) {
  const int unix_socket = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_FALSE(UserOfTcpPeer(unix_socket).has_value());
  EXPECT_FALSE(BytesReceived(unix_socket).has_value());
  close(unix_socket);
}

}  // namespace
}  // namespace tributary
