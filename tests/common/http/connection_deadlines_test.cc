#include "common/http/connection_deadlines.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr absl::Duration kRequest = absl::Seconds(10);
constexpr absl::Duration kAnswer = absl::Seconds(60);
constexpr absl::Duration kMoment = absl::Milliseconds(1);

// One connection, whose peer is this test.
class ConnectionDeadlinesTest : public testing::Test {
 protected:
  ConnectionDeadlinesTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_), 0);
    connection_ = bufferevent_socket_new(base_, sockets_[0], /*options=*/0);
    bufferevent_enable(connection_, EV_READ);
    EXPECT_TRUE(deadlines_.Add(connection_, now_));
  }
  ~ConnectionDeadlinesTest() override {
    bufferevent_free(connection_);
    event_base_free(base_);
    for (const int socket : sockets_) close(socket);
  }

  // Returns whether the connection is open after this time.
  bool OpenAfter(absl::Duration time) {
    now_ += time;
    deadlines_.Enforce(now_);
    char byte = 0;
    return recv(sockets_[1], &byte, 1, MSG_DONTWAIT) < 0;
  }

  event_base* const base_ = event_base_new();
  ConnectionDeadlines deadlines_{base_, {kRequest, kAnswer, 1}};
  absl::Time now_ = absl::FromUnixSeconds(1000);
  int sockets_[2] = {};
  bufferevent* connection_ = nullptr;
};

TEST_F(ConnectionDeadlinesTest, TheFirstRequestHasItsTimeFromTheStart) {
  EXPECT_TRUE(OpenAfter(kRequest - kMoment));
  EXPECT_FALSE(OpenAfter(kMoment));
}

TEST_F(ConnectionDeadlinesTest, EachRequestHasItsTimeFromTheAnswerBefore) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(OpenAfter(kRequest - kMoment));
    deadlines_.OnRequest(connection_, now_);
    ASSERT_TRUE(OpenAfter(kAnswer - kMoment));
    deadlines_.OnAnswered(connection_, now_);
  }
  EXPECT_TRUE(OpenAfter(kRequest - kMoment));
  EXPECT_FALSE(OpenAfter(kMoment));
}

TEST_F(ConnectionDeadlinesTest, AnAnswerHasItsTimeFromItsRequest) {
  EXPECT_TRUE(OpenAfter(kRequest / 2));
  deadlines_.OnRequest(connection_, now_);
  EXPECT_TRUE(OpenAfter(kAnswer - kMoment));
  EXPECT_FALSE(OpenAfter(kMoment));
}

}  // namespace
}  // namespace tributary
