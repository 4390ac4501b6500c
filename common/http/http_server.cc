#include "common/http/http_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/http/connection_deadlines.h"

namespace tributary {
namespace {

constexpr int kMaxHeadBytes = 8 << 10;
// How long the server waits, when it can accept no more connections, before it
// looks again. Meanwhile, connections wait in the kernel's queue.
constexpr timeval kFullInterval = {0, 20000};
// The longest interval between looks at the deadlines.
constexpr absl::Duration kDeadlineInterval = absl::Milliseconds(500);

template <auto free_object>
struct Free {
  template <typename Object>
  void operator()(Object* object) const {
    free_object(object);
  }
};
template <typename Object, auto free_object>
using Owned = std::unique_ptr<Object, Free<free_object>>;

using Base = Owned<event_base, event_base_free>;
using Http = Owned<evhttp, evhttp_free>;
using Event = Owned<event, event_free>;
using TlsContext = Owned<SSL_CTX, SSL_CTX_free>;

std::string Decoded(const char* text) {
  size_t size = 0;
  const Owned<char, std::free> decoded(
      evhttp_uridecode(text, /*decode_plus=*/0, &size));
  return decoded == nullptr ? "" : std::string(decoded.get(), size);
}

absl::StatusOr<TlsContext> MakeTlsContext(
    const HttpServer::Certificate& certificate) {
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const auto bio_of = [](const std::string& text) {
    return Owned<BIO, BIO_free_all>(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  const auto chain = bio_of(certificate.chain);
  bool leaf = true;
  while (X509* const next =
             PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)) {
    // SSL_CTX_add0_chain_cert takes ownership, SSL_CTX_use_certificate does
    // not.
    if (std::exchange(leaf, false)) {
      SSL_CTX_use_certificate(context.get(), next);
      X509_free(next);
    } else {
      SSL_CTX_add0_chain_cert(context.get(), next);
    }
  }
  const Owned<EVP_PKEY, EVP_PKEY_free> private_key(PEM_read_bio_PrivateKey(
      bio_of(certificate.key).get(), nullptr, nullptr, nullptr));
  const bool usable =
      !leaf && private_key != nullptr &&
      SSL_CTX_use_PrivateKey(context.get(), private_key.get()) == 1 &&
      SSL_CTX_check_private_key(context.get()) == 1;
  ERR_clear_error();
  if (!usable) {
    return absl::InvalidArgumentError(
        "the certificate and the key of the HTTP server do not belong "
        "together, or are no PEM");
  }
  return context;
}

}  // namespace

absl::optional<std::string> QueryValue(const std::string& query,
                                       const std::string& name) {
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first == name) return Decoded(std::string(pair.second).c_str());
  }
  return absl::nullopt;
}

// The event loop and its thread. Only the thread uses the loop's objects once
// it runs; the eventfd tells it to end.
class HttpServer::Loop {
 public:
  Loop(const Options& options, Handler handler)
      : options_(options), handler_(std::move(handler)) {}
  ~Loop() {
    if (thread_.joinable()) {
      const uint64_t one = 1;
      // Cannot fail: the counter does not overflow.
      (void)!write(stop_fd_, &one, sizeof(one));
      thread_.Join();
    }
    stop_.reset();
    full_.reset();
    enforce_.reset();
    http_.reset();
    if (stop_fd_ >= 0) close(stop_fd_);
  }

  absl::Status Start();
  int port() const { return port_; }

 private:
  absl::Status Bind();
  void Serve(evhttp_request* request);
  // Uses the newest certificate for the connections that follow.
  absl::Status ReadCertificate();
  // Creates the stream of a new connection, and stops accepting connections for
  // a moment if there are too many.
  bufferevent* Accept();
  bufferevent* MakeStream();
  // Looks at the deadlines again after a while, if there are connections.
  void EnforceLater();

  const Options options_;
  const Handler handler_;
  TlsContext tls_;               // Null without TLS.
  Certificate certificate_;      // Of tls_.
  absl::Time certificate_read_;  // When it was last read.
  Base base_;
  Http http_;
  Event full_;
  Event enforce_;
  Event stop_;
  int stop_fd_ = -1;
  evconnlistener* listener_ = nullptr;  // Owned by http_.
  std::unique_ptr<ConnectionDeadlines> deadlines_;
  int port_ = 0;
  Thread thread_;
};

absl::Status HttpServer::Loop::Start() {
  if (options_.certificate) TRIBUTARY_RETURN_IF_ERROR(ReadCertificate());
  base_.reset(event_base_new());
  http_.reset(base_ == nullptr ? nullptr : evhttp_new(base_.get()));
  stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (http_ == nullptr || stop_fd_ < 0) {
    return absl::ResourceExhaustedError(
        "the HTTP server cannot be created: too many open files");
  }
  evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(http_.get(), kMaxHeadBytes);
  evhttp_set_max_body_size(http_.get(), 0);
  const timeval timeout = absl::ToTimeval(
      std::max(options_.request_timeout, options_.answer_timeout));
  evhttp_set_timeout_tv(http_.get(), &timeout);
  ConnectionDeadlines::Options deadlines;
  deadlines.request = options_.request_timeout;
  deadlines.answer = options_.answer_timeout;
  deadlines.connections = static_cast<size_t>(options_.connections);
  deadlines_ = std::make_unique<ConnectionDeadlines>(base_.get(), deadlines);
  evhttp_set_gencb(
      http_.get(),
      [](evhttp_request* request, void* loop) {
        static_cast<Loop*>(loop)->Serve(request);
      },
      this);
  evhttp_set_bevcb(
      http_.get(),
      [](event_base*, void* loop) {
        return static_cast<Loop*>(loop)->Accept();
      },
      this);
  full_.reset(event_new(
      base_.get(), -1, 0,
      [](evutil_socket_t, short, void* loop) {
        evconnlistener_enable(static_cast<Loop*>(loop)->listener_);
      },
      this));
  enforce_.reset(event_new(
      base_.get(), -1, 0,
      [](evutil_socket_t, short, void* data) {
        auto* const loop = static_cast<Loop*>(data);
        loop->deadlines_->Enforce(MonotonicNow());
        loop->EnforceLater();
      },
      this));
  stop_.reset(event_new(
      base_.get(), stop_fd_, EV_READ,
      [](evutil_socket_t, short, void* base) {
        event_base_loopbreak(static_cast<event_base*>(base));
      },
      base_.get()));
  event_add(stop_.get(), nullptr);
  TRIBUTARY_RETURN_IF_ERROR(Bind());
  thread_ = Thread([this] {
    // A peer that closes its connection must not end the process, in programs
    // that do not ignore the signal either.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    event_base_dispatch(base_.get());
  });
  return absl::OkStatus();
}

absl::Status HttpServer::Loop::Bind() {
  errno = 0;
  evhttp_bound_socket* const bound = evhttp_bind_socket_with_handle(
      http_.get(), options_.host.c_str(), static_cast<uint16_t>(options_.port));
  if (bound == nullptr) {
    const std::string reason =
        errno == 0 ? "the host is unknown" : std::strerror(errno);
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options_.host, ":", options_.port, ": ", reason));
  }
  listener_ = evhttp_bound_socket_get_listener(bound);
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(evhttp_bound_socket_get_fd(bound),
              reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.ss_family == AF_INET6
                    ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                    : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return absl::OkStatus();
}

void HttpServer::Loop::EnforceLater() {
  if (deadlines_->count() == 0 || event_pending(enforce_.get(), EV_TIMEOUT,
                                                /*tv=*/nullptr) != 0) {
    return;
  }
  const timeval interval =
      absl::ToTimeval(std::min({kDeadlineInterval, options_.request_timeout / 4,
                                options_.answer_timeout / 4}));
  event_add(enforce_.get(), &interval);
}

absl::Status HttpServer::Loop::ReadCertificate() {
  certificate_read_ = MonotonicNow();
  TRIBUTARY_ASSIGN_OR_RETURN(Certificate certificate, options_.certificate());
  if (tls_ != nullptr && certificate == certificate_) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(tls_, MakeTlsContext(certificate));
  certificate_ = std::move(certificate);
  return absl::OkStatus();
}

bufferevent* HttpServer::Loop::Accept() {
  if (tls_ != nullptr &&
      MonotonicNow() - certificate_read_ >= options_.reload_interval) {
    // While the files are replaced, they may not belong together. The next
    // connection reads them again.
    (void)ReadCertificate();
  }
  bufferevent* const stream = MakeStream();
  if (!deadlines_->Add(stream, MonotonicNow())) {
    evconnlistener_disable(listener_);
    event_add(full_.get(), &kFullInterval);
  }
  EnforceLater();
  return stream;
}

bufferevent* HttpServer::Loop::MakeStream() {
  if (tls_ == nullptr) {
    return bufferevent_socket_new(base_.get(), -1, BEV_OPT_CLOSE_ON_FREE);
  }
  bufferevent* const stream = bufferevent_openssl_socket_new(
      base_.get(), -1, SSL_new(tls_.get()), BUFFEREVENT_SSL_ACCEPTING,
      BEV_OPT_CLOSE_ON_FREE);
  // Peers that close without a notice are no attackers: the length of a
  // response is known.
  bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
  return stream;
}

void HttpServer::Loop::Serve(evhttp_request* request) {
  deadlines_->OnRequest(
      evhttp_connection_get_bufferevent(evhttp_request_get_connection(request)),
      MonotonicNow());
  evhttp_request_set_on_complete_cb(
      request,
      [](evhttp_request* answered, void* loop) {
        static_cast<Loop*>(loop)->deadlines_->OnAnswered(
            evhttp_connection_get_bufferevent(
                evhttp_request_get_connection(answered)),
            MonotonicNow());
      },
      this);
  const evhttp_uri* const uri = evhttp_request_get_evhttp_uri(request);
  const char* const path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
  const char* const query =
      uri == nullptr ? nullptr : evhttp_uri_get_query(uri);
  HttpRequest received;
  received.path = path == nullptr || *path == '\0' ? "/" : Decoded(path);
  received.query = query == nullptr ? "" : query;
  const evkeyvalq* const sent = evhttp_request_get_input_headers(request);
  const auto header = [sent](const char* name) {
    const char* const value = evhttp_find_header(sent, name);
    return value == nullptr ? std::string() : std::string(value);
  };
  received.host = header("Host");
  received.authorization = header("Authorization");
  const HttpResponse response = handler_(received);
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", response.content_type.c_str());
  evhttp_add_header(headers, "Cache-Control", "no-store");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) {
    evhttp_add_header(headers, name.c_str(), value.c_str());
  }
  const Owned<evbuffer, evbuffer_free> body(evbuffer_new());
  if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD) {
    // libevent would send the body of a response to HEAD.
    evhttp_add_header(headers, "Content-Length",
                      absl::StrCat(response.body.size()).c_str());
  } else {
    evbuffer_add(body.get(), response.body.data(), response.body.size());
  }
  evhttp_send_reply(request, response.code, /*reason=*/nullptr, body.get());
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const Options& options, Handler handler) {
  auto loop = std::make_unique<Loop>(options, std::move(handler));
  TRIBUTARY_RETURN_IF_ERROR(loop->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(loop)));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return loop_->port(); }

}  // namespace tributary
