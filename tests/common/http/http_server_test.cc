#include "common/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection to a server on this machine.
class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0;
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    // The server may have closed the connection.
    (void)!send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Returns what the server sends until it closes the connection.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    while (true) {
      const ssize_t count = read(socket_, buffer, sizeof(buffer));
      if (count <= 0) return all;
      all.append(buffer, static_cast<size_t>(count));
    }
  }

 private:
  const int socket_;
  bool connected_ = false;
};

std::string Ask(int port, const std::string& request) {
  Connection connection(port);
  EXPECT_TRUE(connection.connected());
  connection.Send(request);
  return connection.ReadAll();
}

std::string Get(int port, const std::string& target) {
  return Ask(port, absl::StrCat("GET ", target,
                                " HTTP/1.1\r\nHost: x\r\nConnection: close"
                                "\r\n\r\n"));
}

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServer::Options options = {}) {
    auto server = HttpServer::Start(options, [](const HttpRequest& request) {
      HttpResponse response;
      if (request.path == "/none") response.code = 404;
      response.body = absl::StrCat("[", request.path, "][", request.query, "]");
      return response;
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = server_->port();
  }

  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(HttpServerTest, AnswersWithTheDecodedPathAndTheQuery) {
  Start();
  EXPECT_THAT(Get(port_, "/a%20b/../c?x=%31&y"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"),
                    HasSubstr("X-Content-Type-Options: nosniff\r\n"),
                    EndsWith("\r\n\r\n[/a b/../c][x=%31&y]")));
  EXPECT_THAT(Get(port_, "/none"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServerTest, KeepsConnectionsOpen) {
  Start();
  const std::string request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string last =
      "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const std::string answers = Ask(port_, absl::StrCat(request, last));
  EXPECT_THAT(answers, AllOf(HasSubstr("[/a][]"), EndsWith("[/b][]")));
}

TEST_F(HttpServerTest, AHeadHasNoBody) {
  Start();
  EXPECT_THAT(
      Ask(port_, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), Not(HasSubstr("[/]"))));
}

TEST_F(HttpServerTest, RefusesWhatIsNoSmallReadRequest) {
  Start();
  const std::string host = "Host: x\r\n";
  const std::string requests[] = {
      absl::StrCat("POST / HTTP/1.1\r\n", host, "Content-Length: 0\r\n\r\n"),
      absl::StrCat("DELETE / HTTP/1.1\r\n", host, "\r\n"),
      absl::StrCat("GET / HTTP/1.1\r\n", host,
                   "Content-Length: 5\r\n\r\nabcde"),
      absl::StrCat("GET / HTTP/1.1\r\n", host, "A: ", std::string(10000, 'a'),
                   "\r\n\r\n"),
      absl::StrCat("GET /", std::string(10000, 'a'), " HTTP/1.1\r\n\r\n"),
      "nonsense\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n",
  };
  for (const std::string& request : requests) {
    SCOPED_TRACE(request.substr(0, 40));
    Connection connection(port_);
    connection.Send(request);
    const std::string answer = connection.ReadAll();
    EXPECT_THAT(answer, Not(HasSubstr(" 200 ")));
    EXPECT_THAT(answer, Not(HasSubstr("[/")));
  }
  EXPECT_THAT(Get(port_, "/"), EndsWith("[/][]"));
}

TEST_F(HttpServerTest, ManyConnectionsWaitForEachOther) {
  HttpServer::Options options;
  options.connections = 8;
  Start(options);
  std::vector<std::unique_ptr<Connection>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<Connection>(port_));
    idle.back()->Send("GET / HT");
  }
  // Waits in the queue until the others are closed.
  Connection late(port_);
  late.Send("GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  idle.clear();
  EXPECT_THAT(late.ReadAll(), EndsWith("[/late][]"));
}

TEST_F(HttpServerTest, ClosesConnectionsThatSendNothing) {
  HttpServer::Options options;
  options.idle_timeout = absl::Milliseconds(50);
  Start(options);
  Connection idle(port_);
  idle.Send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(idle.ReadAll(), Not(HasSubstr("[/]")));
}

TEST_F(HttpServerTest, EndsWithOpenConnections) {
  Start();
  Connection idle(port_);
  idle.Send("GET / HTTP/1.1\r\n");
  server_.reset();
  EXPECT_EQ(idle.ReadAll(), "");
}

TEST_F(HttpServerTest, AnAddressThatIsTakenIsAnError) {
  Start();
  HttpServer::Options options;
  options.port = port_;
  EXPECT_THAT(
      HttpServer::Start(options, nullptr).status(),
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr(absl::StrCat("cannot listen on 127.0.0.1:", port_,
                                      ": Address already in use"))));
}

TEST_F(HttpServerTest, RefusesABadCertificate) {
  HttpServer::Options options;
  options.certificate = "x";
  options.key = "y";
  EXPECT_THAT(HttpServer::Start(options, nullptr).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the certificate and the key")));
}

}  // namespace
}  // namespace tributary
