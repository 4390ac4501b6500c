#include "common/http/http_server.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/raw_connection.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
    RawConnection connection(port_);
    connection.Send(request);
    const std::string answer = connection.ReadAll();
    EXPECT_THAT(answer, Not(HasSubstr(" 200 ")));
    EXPECT_THAT(answer, Not(HasSubstr("[/")));
  }
  EXPECT_THAT(Get(port_, "/"), EndsWith("[/][]"));
}

TEST_F(HttpServerTest, IdleConnectionsKeepNoRequestFromItsAnswer) {
  HttpServer::Options options;
  options.connections = 8;
  options.request_timeout = absl::Hours(1);
  Start(options);
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 400; ++i) {
    idle.push_back(std::make_unique<RawConnection>(port_));
    if (i % 2 == 0) idle.back()->Send("GET / HT");
    if (i % 100 == 0) {
      EXPECT_THAT(Get(port_, "/honest"), EndsWith("[/honest][]"));
    }
  }
  EXPECT_THAT(Get(port_, "/honest"), EndsWith("[/honest][]"));
}

TEST_F(HttpServerTest, ClosesConnectionsThatSendNothing) {
  HttpServer::Options options;
  options.request_timeout = absl::Milliseconds(50);
  options.answer_timeout = absl::Hours(1);
  Start(options);
  RawConnection idle(port_);
  idle.Send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(idle.ReadAll(), Not(HasSubstr("[/]")));
  // After an answer, too. On a busy machine, the request may be too late.
  std::string answer;
  while (answer.empty()) {
    answer = Ask(port_, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_THAT(answer, EndsWith("[/a][]"));
}

// The peer sends a byte well within the timeout, again and again ("slow
// loris").
TEST_F(HttpServerTest, ClosesConnectionsThatTrickle) {
  HttpServer::Options options;
  options.request_timeout = absl::Milliseconds(300);
  Start(options);
  const absl::Time began = absl::Now();
  RawConnection slow(port_);
  slow.Send("GET / HTTP/1.1\r\nA: ");
  while (!slow.Ended(absl::Milliseconds(20))) {
    ASSERT_LT(absl::Now() - began, absl::Seconds(60));
    slow.Send("a");
  }
  EXPECT_GE(absl::Now() - began, absl::Milliseconds(250));
}

TEST_F(HttpServerTest, ClosesConnectionsThatDoNotReadTheirAnswer) {
  HttpServer::Options options;
  options.answer_timeout = absl::Milliseconds(100);
  std::atomic<int> answers = 0;
  auto server = HttpServer::Start(options, [&](const HttpRequest&) {
    ++answers;
    HttpResponse response;
    response.body = std::string(64 << 20, 'x');
    return response;
  });
  ASSERT_TRUE(server.ok()) << server.status();
  RawConnection lazy((*server)->port());
  lazy.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (answers == 0) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(3 * options.answer_timeout);
  EXPECT_LT(lazy.ReadAll().size(), size_t{64} << 20);
}

TEST_F(HttpServerTest, ManyRequestsOnOneConnectionAreAnswered) {
  HttpServer::Options options;
  options.connections = 1;
  Start(options);
  RawConnection connection(port_);
  for (int i = 0; i < 10; ++i) {
    connection.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  connection.Send("GET /b HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.ReadAll(), EndsWith("[/b][]"));
}

TEST_F(HttpServerTest, EndsWithOpenConnections) {
  Start();
  RawConnection idle(port_);
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

HttpServer::Certificate CertificateFor(const std::string& name) {
  CertificateRequest request;
  request.common_name = name;
  request.not_before = absl::Now() - absl::Hours(1);
  request.not_after = absl::Now() + absl::Hours(1);
  const auto made = MakeAuthority(request);
  EXPECT_TRUE(made.ok()) << made.status();
  return {made->certificate, made->key};
}

// Connects with TLS and returns the common name of the server's certificate;
// an empty string if the handshake fails.
std::string NameOfServer(int port) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
      SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> stream(
      BIO_new_ssl_connect(context.get()), &BIO_free_all);
  BIO_set_conn_hostname(stream.get(), absl::StrCat("127.0.0.1:", port).c_str());
  if (BIO_do_handshake(stream.get()) != 1) return "";
  SSL* ssl = nullptr;
  BIO_get_ssl(stream.get(), &ssl);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get1_peer_certificate(ssl), &X509_free);
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()),
                            NID_commonName, name, sizeof(name));
  return name;
}

TEST_F(HttpServerTest, UsesANewCertificateForNewConnections) {
  absl::Mutex mu;
  absl::StatusOr<HttpServer::Certificate> newest = CertificateFor("old");
  const auto set = [&](absl::StatusOr<HttpServer::Certificate> next) {
    const absl::MutexLock lock(&mu);
    newest = std::move(next);
  };
  HttpServer::Options options;
  options.reload_interval = absl::ZeroDuration();
  options.certificate = [&] {
    const absl::MutexLock lock(&mu);
    return newest;
  };
  Start(options);
  EXPECT_EQ(NameOfServer(port_), "old");
  const HttpServer::Certificate next = CertificateFor("new");
  // While the files are replaced, one may be missing, or belong to another key.
  set(absl::NotFoundError("server.pem"));
  EXPECT_EQ(NameOfServer(port_), "old");
  set(HttpServer::Certificate{next.chain, CertificateFor("x").key});
  EXPECT_EQ(NameOfServer(port_), "old");
  set(next);
  EXPECT_EQ(NameOfServer(port_), "new");
}

TEST_F(HttpServerTest, DoesNotReadTheCertificateForEachConnection) {
  std::atomic<int> reads{0};
  const HttpServer::Certificate certificate = CertificateFor("x");
  HttpServer::Options options;
  options.reload_interval = absl::Hours(1);
  options.certificate = [&] {
    ++reads;
    return certificate;
  };
  Start(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NameOfServer(port_), "x");
  EXPECT_EQ(reads, 1);
}

TEST_F(HttpServerTest, RefusesABadCertificate) {
  HttpServer::Options options;
  options.certificate = [] { return HttpServer::Certificate{"x", "y"}; };
  EXPECT_THAT(HttpServer::Start(options, nullptr).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the certificate and the key")));
  options.certificate = [] { return absl::NotFoundError("no server.pem"); };
  EXPECT_THAT(HttpServer::Start(options, nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound, "no server.pem"));
}

}  // namespace
}  // namespace tributary
