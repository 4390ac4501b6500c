#include "deploy/tools/status/run_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/deploy/tools/runs/run_files.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunAddressTest : public RunFilesTest {
 protected:
  RunAddressTest() { rules_.security.token = "a token of at least 16 bytes"; }
  ~RunAddressTest() override {
    if (socket_ >= 0) close(socket_);
  }

  // Listens on a free port of the loopback, and returns the port.
  int Listen() {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  absl::StatusOr<std::string> Find(const std::string& address) {
    Write("a/server.json", absl::StrCat("{\"address\":\"", address, "\"}"));
    return AddressOfRun(Folder("a"), rules_);
  }

  RunAddressRules rules_;
  int socket_ = -1;
};

TEST_F(RunAddressTest, IsTheNumericAddressOfAServerOfThisUser) {
  const int port = Listen();
  const std::string expected = absl::StrCat("127.0.0.1:", port);
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    const auto found = Find(absl::StrCat(host, ":", port));
    ASSERT_TRUE(found.ok()) << host << ": " << found.status();
    EXPECT_EQ(*found, expected) << host;
  }
}

TEST_F(RunAddressTest, SaysThatTheJobDoesNotRun) {
  EXPECT_THAT(
      AddressOfRun(Folder("a"), rules_),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("a has no server.json")));
  const int port = Listen();
  close(std::exchange(socket_, -1));
  EXPECT_THAT(Find(absl::StrCat("127.0.0.1:", port)),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("nobody listens at 127.0.0.1:")));
}

TEST_F(RunAddressTest, RefusesAnotherMachineUnlessTheUserHasNamedIt) {
  rules_.security.token.clear();
  EXPECT_THAT(Find("192.0.2.1:80"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("names 192.0.2.1:80"),
                             HasSubstr("--coordinator 192.0.2.1:80"))));
  EXPECT_THAT(Find("node1.example:80"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("names node1.example:80, which is not")));
  rules_.named = {"node1.example:80"};
  EXPECT_EQ(*Find("node1.example:80"), "node1.example:80");
}

TEST_F(RunAddressTest, SendsNoCredentialsToAnotherUser) {
  // The user who runs this test stands for another one.
  rules_.trusted = {geteuid() + 1};
  const std::string address = absl::StrCat("127.0.0.1:", Listen());
  EXPECT_THAT(Find(address),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(absl::StrCat("a process of user ",
                                                    geteuid(), " listens")),
                             HasSubstr("credentials are not sent"))));
  // Without credentials, there is nothing to protect.
  rules_.security.token.clear();
  EXPECT_EQ(*Find(address), address);
  rules_.security.tls_directory = "certificates";
  EXPECT_THAT(Find(address), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("credentials are not sent")));
}

TEST_F(RunAddressTest, RefusesWhatIsNoAddressAndNoRegularFile) {
  for (const char* address : {"", "unix:/tmp/x", "127.0.0.1", "127.0.0.1:x"}) {
    EXPECT_THAT(Find(address),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("a/server.json has no address")))
        << address;
  }
  Write("b/other", "{\"address\":\"127.0.0.1:1\"}");
  std::filesystem::create_symlink("other", root_ + "/b/server.json");
  EXPECT_THAT(AddressOfRun(Folder("b"), rules_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("symbolic link")));
}

}  // namespace
}  // namespace tributary
