// A small HTTP server for pages that show the state of a process.
#ifndef TRIBUTARY_COMMON_HTTP_HTTP_SERVER_H_
#define TRIBUTARY_COMMON_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tributary {

struct HttpRequest {
  std::string path;   // Decoded, without the query, such as "/metrics".
  std::string query;  // The part after the question mark, not decoded.
  // The values of the headers Host and Authorization; empty if absent.
  std::string host;
  std::string authorization;
};

// Returns the decoded value of parameter `name` in `query`, or nullopt if the
// query does not contain it.
absl::optional<std::string> QueryValue(const std::string& query,
                                       const std::string& name);

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // Further headers. Names and values must not contain line ends.
  std::vector<std::pair<std::string, std::string>> headers;
};

// Serves GET and HEAD requests with HTTP/1.1 on one thread (libevent's evhttp).
// Rejects requests that have a body, a different method, or a head (request
// line and headers) of more than 8 KiB, without calling the handler.
//
// Closes a connection if the peer does not send the head of its next request,
// or does not read a response, within the time limits in Options. When a new
// connection exceeds the maximum number of connections, closes the connection
// that has waited longest without a complete request, so that idle connections
// do not block other clients.
class HttpServer {
 public:
  // Returns the response to a request. Called on the server's thread, so no
  // other request is served until it returns.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // A certificate chain and its private key, in PEM format.
  struct Certificate {
    std::string chain;
    std::string key;

    bool operator==(const Certificate& other) const {
      return chain == other.chain && key == other.key;
    }
  };

  struct Options {
    // The address to listen on. Port 0 selects a free port.
    std::string host = "127.0.0.1";
    int port = 0;
    // Returns the newest certificate, such as the contents of its files. Called
    // on the server's thread for new connections, but not more often than once
    // per `reload_interval`. If it returns an error, or a certificate that
    // cannot be used, the server keeps the previous one. Null if the server
    // does not use TLS.
    std::function<absl::StatusOr<Certificate>()> certificate;
    absl::Duration reload_interval = absl::Seconds(1);
    int connections = 128;
    // Maximum time to receive the head of a request, from the start of the
    // connection or from the end of the previous response.
    absl::Duration request_timeout = absl::Seconds(10);
    // Maximum time to send a response.
    absl::Duration answer_timeout = absl::Seconds(60);
  };

  // Starts a server. Returns Unavailable, with the system's error, if the
  // address cannot be bound, InvalidArgument if the certificate or the key
  // cannot be used, and the errors of Options::certificate.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const Options& options, Handler handler);
  // Waits for a call of the handler that is in progress, then closes all
  // connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_HTTP_HTTP_SERVER_H_
