#include "common/transport/diagnosis.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr int kTimeoutSeconds = 1;  // Timeout of each blocking operation.

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};

// Returns the host of host:port, without the brackets of an IPv6 address.
std::string HostIn(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.size() > 2 && host.front() == '['
             ? host.substr(1, host.size() - 2)
             : host;
}

class Connection {
 public:
  explicit Connection(const std::string& address) {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return;
    const std::string host = HostIn(address);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints,
                    &found) != 0) {
      return;
    }
    for (addrinfo* one = found; one != nullptr && socket_ < 0;
         one = one->ai_next) {
      Connect(*one);
    }
    freeaddrinfo(found);
  }
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }

 private:
  void Connect(const addrinfo& to) {
    socket_ = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return;
    const timeval timeout = {kTimeoutSeconds, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    // The send timeout also limits connect().
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(socket_, to.ai_addr, to.ai_addrlen) == 0) return;
    close(socket_);
    socket_ = -1;
  }

  int socket_ = -1;
};

// Blocks SIGPIPE on this thread until it is destroyed. OpenSSL writes to
// sockets without MSG_NOSIGNAL, so a peer that has closed the connection would
// otherwise end a program that does not ignore the signal.
class SigpipeBlocker {
 public:
  SigpipeBlocker() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &previous_);
  }
  ~SigpipeBlocker() {
    // Accepts the signal if a write has raised it.
    const timespec no_wait = {};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  SigpipeBlocker(const SigpipeBlocker&) = delete;
  SigpipeBlocker& operator=(const SigpipeBlocker&) = delete;

 private:
  sigset_t pipe_;
  sigset_t previous_;
  bool was_pending_ = false;
};

// Why an SSL function failed.
struct HandshakeFailure {
  bool not_tls = false;  // The peer does not use TLS.
  bool alert = false;    // The peer sent a TLS alert.
  bool closed = false;   // The peer closed the connection.
  std::string reason;
};

HandshakeFailure Explain(SSL* session, int result) {
  HandshakeFailure failure;
  const int kind = SSL_get_error(session, result);
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  const char* text = ERR_reason_error_string(code);
  failure.reason = text == nullptr ? "no reason given" : text;
  ERR_clear_error();
  if (kind == SSL_ERROR_SSL) {
    failure.closed = reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    failure.alert = reason >= SSL_AD_REASON_OFFSET;
    failure.not_tls = !failure.closed && !failure.alert;
  } else if (kind == SSL_ERROR_ZERO_RETURN) {
    failure.closed = true;
  } else if (kind == SSL_ERROR_SYSCALL) {
    failure.closed = errno == ECONNRESET || errno == EPIPE || errno == 0;
  }
  return failure;
}

absl::Status Refusal(const std::string& address, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(address, ": ", what));
}

// Checks the server's certificate after the handshake.
absl::Status JudgeServer(const std::string& address, const Security& security,
                         Role peer, SSL* session) {
  const long result = SSL_get_verify_result(session);
  if (result != X509_V_OK) {
    return Refusal(
        address, absl::StrCat("the server's certificate is refused: ",
                              X509_verify_cert_error_string(result),
                              "; check that ", security.CaPath(),
                              " of --tls-dir is the authority that issued it"));
  }
  const std::unique_ptr<X509, FreeCertificate> certificate(
      SSL_get1_peer_certificate(session));
  const std::string name = RoleDnsName(peer);
  if (certificate == nullptr || X509_check_host(certificate.get(), name.data(),
                                                name.size(), 0, nullptr) != 1) {
    return Refusal(address,
                   absl::StrCat("the peer is not a ", RoleName(peer),
                                ": its certificate does not name ", name,
                                "; start the ", RoleName(peer),
                                " with a certificate that does, in --tls-dir"));
  }
  return absl::OkStatus();
}

// Checks whether the server refuses this process's certificate. With TLS 1.3
// the server reports that after the handshake.
absl::Status AskJudgement(const std::string& address, const Security& security,
                          SSL* session) {
  char byte = 0;
  const int result = SSL_read(session, &byte, 1);
  if (result > 0) return absl::OkStatus();
  const HandshakeFailure failure = Explain(session, result);
  if (!failure.alert && !failure.closed) return absl::OkStatus();
  return Refusal(
      address,
      absl::StrCat("the server refuses ", security.CertificatePath(),
                   failure.alert ? absl::StrCat(" (", failure.reason, ")") : "",
                   ": check that its --tls-dir has the same ca.pem, and that "
                   "the certificate has not expired"));
}

}  // namespace

std::string NameProblem(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return "";
  const std::string host = HostIn(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return "";
  }
  return absl::StrCat("the name ", host, " does not resolve (",
                      gai_strerror(error), ")");
}

absl::Status Diagnose(const std::string& address, const Security& security,
                      Role peer) {
  const SigpipeBlocker blocker;
  const Connection connection(address);
  if (connection.socket() < 0) return absl::OkStatus();
  const std::unique_ptr<SSL_CTX, FreeContext> context(
      SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::OkStatus();
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (security.tls()) {
    SSL_CTX_load_verify_locations(context.get(), security.CaPath().c_str(),
                                  nullptr);
    SSL_CTX_use_certificate_chain_file(context.get(),
                                       security.CertificatePath().c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), security.KeyPath().c_str(),
                                SSL_FILETYPE_PEM);
  }
  const std::unique_ptr<SSL, FreeSession> session(SSL_new(context.get()));
  ERR_clear_error();
  if (session == nullptr ||
      SSL_set_fd(session.get(), connection.socket()) != 1) {
    return absl::OkStatus();
  }
  // gRPC servers require this ALPN protocol.
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof(kHttp2));
  errno = 0;
  const int result = SSL_connect(session.get());
  const HandshakeFailure failure =
      result == 1 ? HandshakeFailure() : Explain(session.get(), result);
  const bool tls = result == 1 || failure.alert;
  if (!security.tls()) {
    return tls ? Refusal(address,
                         "the server requires TLS: add --tls-dir DIR with "
                         "certificates of its authority")
               : absl::OkStatus();
  }
  if (failure.not_tls) {
    return Refusal(address,
                   "the server does not speak TLS: start it with --tls-dir "
                   "DIR, or start this process without it");
  }
  if (!tls) return absl::OkStatus();
  const absl::Status judged =
      JudgeServer(address, security, peer, session.get());
  if (!judged.ok()) return judged;
  if (result != 1) {
    return Refusal(address,
                   absl::StrCat("the TLS handshake fails: ", failure.reason,
                                "; check --tls-dir of both processes"));
  }
  return AskJudgement(address, security, session.get());
}

}  // namespace tributary
