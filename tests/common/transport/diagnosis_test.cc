#include "common/transport/diagnosis.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/transport/security.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Accepts connections on a thread, ends each one and then resets it, without
// reading. After the end of the stream and the reset, writing to the client's
// socket raises SIGPIPE.
class RudePeer {
 public:
  explicit RudePeer(int connections)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, name, size), 0);
    EXPECT_EQ(listen(listener_, connections), 0);
    EXPECT_EQ(getsockname(listener_, name, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this, connections] {
      for (int i = 0; i < connections; ++i) Answer();
    });
  }
  ~RudePeer() {
    thread_.join();
    close(listener_);
  }

  const std::string& address() const { return address_; }

 private:
  void Answer() {
    const int peer = accept(listener_, nullptr, nullptr);
    shutdown(peer, SHUT_WR);
    const linger reset = {1, 0};
    EXPECT_EQ(setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)),
              0);
    close(peer);
  }

  const int listener_;
  std::string address_;
  std::thread thread_;
};

// Without protection, writing to such a connection ends the process.
TEST(DiagnosisTest, APeerThatClosesTheConnectionRaisesNoSignal) {
  constexpr int kConnections = 50;
  const auto previous = signal(SIGPIPE, SIG_DFL);
  {
    RudePeer peer(kConnections);
    for (int i = 0; i < kConnections; ++i) {
      EXPECT_TRUE(Diagnose(peer.address(), Security()).ok());
    }
  }
  signal(SIGPIPE, previous);
  sigset_t pending;
  ASSERT_EQ(sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

}  // namespace
}  // namespace tributary
