#include "common/transport/connection_table.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using Answer = ConnectionTable::Answer;

Limits Most(int connections, int connections_per_peer) {
  Limits limits;
  limits.connections = connections;
  limits.connections_per_peer = connections_per_peer;
  return limits;
}

class ConnectionTableTest : public testing::Test {
 protected:
  ~ConnectionTableTest() override {
    for (const int socket : sockets_) close(socket);
  }

  int NewSocket() {
    sockets_.push_back(socket(AF_UNIX, SOCK_STREAM, 0));
    return sockets_.back();
  }
  void Close(int socket) {
    close(socket);
    sockets_.erase(std::find(sockets_.begin(), sockets_.end(), socket));
  }
  void Pass() { now_ += ConnectionTable::kLookInterval; }

  std::vector<int> sockets_;
  absl::Time now_ = absl::FromUnixSeconds(1);
};

TEST_F(ConnectionTableTest, LimitsEachPeer) {
  ConnectionTable table(Most(100, 2));
  EXPECT_EQ(table.Add(NewSocket(), "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(NewSocket(), "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(NewSocket(), "a", now_), Answer::kPeerHasTooMany);
  EXPECT_EQ(table.Add(NewSocket(), "b", now_), Answer::kWelcome);
  EXPECT_EQ(table.size(), 3);
}

TEST_F(ConnectionTableTest, ShutsDownTheConnectionsThatAreOpen) {
  ConnectionTable table(Most(100, 100));
  int ends[2][2];
  for (auto& pair : ends) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sockets_.insert(sockets_.end(), {pair[0], pair[1]});
  }
  EXPECT_EQ(table.Add(ends[0][0], "a", now_), Answer::kWelcome);
  const int closed = NewSocket();
  EXPECT_EQ(table.Add(closed, "a", now_), Answer::kWelcome);
  Close(closed);
  table.ShutDownAll();
  char byte = 0;
  EXPECT_EQ(recv(ends[0][1], &byte, 1, MSG_DONTWAIT), 0);
  // Not a connection of the table.
  EXPECT_EQ(recv(ends[1][1], &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(ConnectionTableTest, LimitsAll) {
  ConnectionTable table(Most(2, 2));
  EXPECT_EQ(table.Add(NewSocket(), "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(NewSocket(), "b", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(NewSocket(), "c", now_), Answer::kTooMany);
}

TEST_F(ConnectionTableTest, ForgetsWhatWasClosed) {
  ConnectionTable table(Most(2, 1));
  const int first = NewSocket();
  const int second = NewSocket();
  const int third = NewSocket();  // Keeps the others' numbers from use.
  const int fourth = NewSocket();
  EXPECT_EQ(table.Add(first, "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(second, "b", now_), Answer::kWelcome);
  Close(first);
  EXPECT_EQ(table.Add(third, "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.size(), 2);
  Close(second);
  EXPECT_EQ(table.Add(fourth, "c", now_), Answer::kWelcome);
  EXPECT_EQ(table.size(), 2);
}

TEST_F(ConnectionTableTest, ANumberThatComesBackIsAnotherConnection) {
  ConnectionTable table(Most(1, 1));
  const int first = NewSocket();
  EXPECT_EQ(table.Add(first, "a", now_), Answer::kWelcome);
  Close(first);
  const int again = NewSocket();
  ASSERT_EQ(again, first);
  EXPECT_EQ(table.Add(again, "b", now_), Answer::kWelcome);
  EXPECT_EQ(table.size(), 1);
}

// A descriptor of ours that took the number of a closed connection must not
// keep that alive.
TEST_F(ConnectionTableTest, ANumberThatServesOtherwiseIsNoConnection) {
  ConnectionTable table(Most(1, 1));
  const int first = NewSocket();
  EXPECT_EQ(table.Add(first, "a", now_), Answer::kWelcome);
  Close(first);
  ASSERT_EQ(NewSocket(), first);
  EXPECT_EQ(table.Add(NewSocket(), "a", now_), Answer::kWelcome);
}

TEST_F(ConnectionTableTest, LooksNotMoreOftenThanItSays) {
  ConnectionTable table(Most(10, 1));
  const int first = NewSocket();
  const int second = NewSocket();
  EXPECT_EQ(table.Add(first, "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(second, "a", now_), Answer::kPeerHasTooMany);
  Close(first);
  EXPECT_EQ(table.Add(second, "a", now_), Answer::kPeerHasTooMany);
  Pass();
  EXPECT_EQ(table.Add(second, "a", now_), Answer::kWelcome);
}

TEST_F(ConnectionTableTest, NobodyConnectsFasterThanItSays) {
  Limits limits;
  limits.new_connections_per_peer = 3;
  limits.new_connections_per_second = 1;
  ConnectionTable table(limits);
  const auto connect = [&](const std::string& peer, int times) {
    int welcome = 0;
    for (int i = 0; i < times; ++i) {
      welcome += table.Add(NewSocket(), peer, now_) == Answer::kWelcome;
    }
    return welcome;
  };
  // Its own, and ten seconds' worth of what is shared.
  EXPECT_EQ(connect("a", 100), 3 + 10);
  EXPECT_EQ(connect("a", 100), 0);
  // That is of no concern to others.
  EXPECT_EQ(connect("b", 100), 3);
  now_ += absl::Seconds(1);
  EXPECT_EQ(connect("a", 100), 1 + 1);
  EXPECT_EQ(connect("b", 100), 1);
  now_ += absl::Hours(1);
  EXPECT_EQ(connect("a", 100), 3 + 10);
}

TEST_F(ConnectionTableTest, RemembersOnlySoManyAddresses) {
  Limits limits;
  limits.new_connections_per_second = 1;
  ConnectionTable table(limits);
  const int socket = NewSocket();
  int welcome = 0;
  for (int i = 0; i < 10000; ++i) {
    welcome += table.Add(socket, absl::StrCat(i), now_) == Answer::kWelcome;
  }
  EXPECT_EQ(welcome, 4096 + 10);
  now_ += absl::Minutes(1);
  EXPECT_EQ(table.Add(socket, "another", now_), Answer::kWelcome);
}

// Connections over TCP, of which the kernel counts the bytes.
class SilentConnectionTest : public ConnectionTableTest {
 protected:
  SilentConnectionTest() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockets_.push_back(listener_);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&address_);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(listener_, address, size), 0);
    EXPECT_EQ(getsockname(listener_, address, &size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
  }

  // Returns the accepted end of a new connection whose other end has sent
  // `bytes`.
  int NewConnection(int bytes) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    sockets_.push_back(client);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address_),
                      sizeof(address_)),
              0);
    sockets_.push_back(accept(listener_, nullptr, nullptr));
    const int accepted = sockets_.back();
    const std::string text(bytes, 'x');
    if (bytes > 0) {
      EXPECT_EQ(send(client, text.data(), text.size(), 0), bytes);
      char byte = 0;
      EXPECT_EQ(recv(accepted, &byte, 1, MSG_PEEK), 1);  // It has arrived.
    }
    return accepted;
  }

  // Reads what has arrived; returns true if `accepted` has been shut down.
  static bool IsShutDown(int accepted) {
    char bytes[256];
    ssize_t count;
    do {
      count = recv(accepted, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (count > 0);
    return count == 0;
  }

  int listener_ = -1;
  sockaddr_in address_ = {};
};

TEST_F(SilentConnectionTest, GivesItsPlaceToANewOne) {
  ConnectionTable table(Most(100, 3));
  const int speaking = NewConnection(/*bytes=*/24);
  const int first = NewConnection(/*bytes=*/23);
  const int second = NewConnection(/*bytes=*/0);
  EXPECT_EQ(table.Add(speaking, "a", now_), Answer::kWelcome);
  EXPECT_EQ(table.Add(first, "a", now_ + absl::Milliseconds(1)),
            Answer::kWelcome);
  EXPECT_EQ(table.Add(second, "a", now_ + absl::Milliseconds(2)),
            Answer::kWelcome);
  now_ += absl::Milliseconds(2) + ConnectionTable::kSilence;
  EXPECT_EQ(table.Add(NewConnection(24), "a", now_), Answer::kWelcome);
  EXPECT_TRUE(IsShutDown(first));
  EXPECT_FALSE(IsShutDown(second));
  EXPECT_EQ(table.Add(NewConnection(24), "a", now_), Answer::kWelcome);
  EXPECT_TRUE(IsShutDown(second));
  EXPECT_EQ(table.Add(NewConnection(24), "a", now_), Answer::kPeerHasTooMany);
  EXPECT_FALSE(IsShutDown(speaking));
  EXPECT_EQ(table.size(), 3);
}

TEST_F(SilentConnectionTest, HasTimeToSpeak) {
  ConnectionTable table(Most(100, 1));
  const int silent = NewConnection(/*bytes=*/0);
  EXPECT_EQ(table.Add(silent, "a", now_), Answer::kWelcome);
  now_ += ConnectionTable::kSilence - absl::Milliseconds(1);
  EXPECT_EQ(table.Add(NewConnection(24), "a", now_), Answer::kPeerHasTooMany);
  EXPECT_FALSE(IsShutDown(silent));
}

}  // namespace
}  // namespace tributary
