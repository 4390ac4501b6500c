#include "common/listener/listener.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/faults/strangers.h"
#include "tests/support/byte_call.h"
#include "tests/support/certificates.h"

// What LeakSanitizer passes over: c-ares keeps ten bytes of a name that gRPC
// has it look up.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }

namespace tributary {
namespace {

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
  }

  absl::StatusOr<std::unique_ptr<Listener>> Start(const std::string& address) {
    Listener::Options options;
    options.network = address;
    options.unix_socket =
        absl::StrCat("unix-abstract:tributary-test-", getpid(), "-", ++count_);
    socket_ = options.unix_socket;
    options.limits = limits_;
    options.security = security_;
    options.log = log_.get();
    return Listener::Start(options, {&service_});
  }

  static std::string Health(const std::string& address) {
    return HealthOf(CreateChannel(address), "");
  }

  Rendezvous::CallbackService service_;
  Limits limits_;
  Security security_;
  std::unique_ptr<Logger> log_;
  std::string socket_;
  int count_ = 0;
};

TEST_F(ListenerTest, SaysThatItIsHealthyWhenItIsReady) {
  const std::unique_ptr<Listener> listener = Start("127.0.0.1:0").value();
  const std::string network = absl::StrCat("127.0.0.1:", listener->port());
  for (const std::string& address : {network, socket_}) {
    EXPECT_EQ(Health(address), "NOT_SERVING");
    listener->SetReady(true);
    EXPECT_EQ(Health(address), "SERVING");
    listener->SetReady(false);
  }
  listener->ShutDown(absl::Seconds(5));
}

TEST_F(ListenerTest, TakesEveryAddressOfAName) {
  const std::unique_ptr<Listener> listener = Start("localhost:0").value();
  EXPECT_EQ(Health(absl::StrCat("localhost:", listener->port())),
            "NOT_SERVING");
}

TEST_F(ListenerTest, SaysWhatToDoAboutAnAddressThatIsTaken) {
  const std::unique_ptr<Listener> listener = Start("127.0.0.1:0").value();
  const auto second = Start(absl::StrCat("127.0.0.1:", listener->port()));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("--listen HOST:PORT"),
            absl::string_view::npos);
}

// Connections that send nothing, or only part of a handshake.
TEST_F(ListenerTest, CutsWhoDoesNotCompleteTheHandshake) {
  limits_.handshake_timeout = absl::Milliseconds(200);
  const std::string tls = testing::TempDir() + "/listener-tls";
  WriteTlsDirectory(tls);
  for (const Security& security :
       {Security(), TestSecurity(tls, Role::kServer)}) {
    security_ = security;
    const std::unique_ptr<Listener> listener = Start("127.0.0.1:0").value();
    for (const std::string& begin :
         {std::string(), std::string("PRI * HTTP/2.0\r\n\r\nSM"),
          std::string("\x16\x03\x01\x02\x00\x01", 6)}) {
      const int stranger = ConnectStranger(listener->port(), /*number=*/0);
      ASSERT_GE(stranger, 0);
      (void)send(stranger, begin.data(), begin.size(), MSG_NOSIGNAL);
      ssize_t received = 0;
      char bytes[256];
      do {
        pollfd waiting = {stranger, POLLIN, 0};
        ASSERT_EQ(poll(&waiting, 1, /*timeout_ms=*/20'000), 1);
        received = recv(stranger, bytes, sizeof(bytes), 0);
      } while (received > 0);
      close(stranger);
    }
  }
}

}  // namespace
}  // namespace tributary
