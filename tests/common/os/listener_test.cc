#include "common/os/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// A socket of this process that is bound to a free port.
class BoundSocket {
 public:
  explicit BoundSocket(const char* host)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host, &address.sin_addr);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~BoundSocket() { close(socket_); }
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;

  void Listen() { EXPECT_EQ(listen(socket_, 1), 0); }
  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

TEST(ListenerTest, FindsTheUserWhoListens) {
  BoundSocket socket("127.0.0.1");
  EXPECT_EQ(*ListenersAt("127.0.0.1", socket.port()), std::set<uid_t>());
  socket.Listen();
  EXPECT_EQ(*ListenersAt("127.0.0.1", socket.port()),
            std::set<uid_t>({getuid()}));
  EXPECT_EQ(*ListenersAt("::ffff:127.0.0.1", socket.port()),
            std::set<uid_t>({getuid()}));
  EXPECT_EQ(*ListenersAt("127.0.0.2", socket.port()), std::set<uid_t>());
  EXPECT_EQ(*ListenersAt("::1", socket.port()), std::set<uid_t>());
}

TEST(ListenerTest, FindsListenersOfAllAddresses) {
  BoundSocket socket("0.0.0.0");
  socket.Listen();
  EXPECT_EQ(*ListenersAt("127.0.0.1", socket.port()),
            std::set<uid_t>({getuid()}));
}

TEST(ListenerTest, RefusesNames) {
  EXPECT_THAT(
      ListenersAt("localhost", 80),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"localhost\"")));
}

}  // namespace
}  // namespace tributary
