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
  std::string query;  // What follows the question mark, as sent.
  // The headers of these names; empty if absent.
  std::string host;
  std::string authorization;
};

// Returns the value of a parameter of `query`, decoded, or nullopt if the query
// does not have it.
absl::optional<std::string> QueryValue(const std::string& query,
                                       const std::string& name);

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // Further headers. Names and values must not contain line ends.
  std::vector<std::pair<std::string, std::string>> headers;
};

// Serves GET and HEAD requests on one thread, by HTTP/1.1 (libevent's evhttp).
// Requests with a body, with another method or with a head of more than 8 KiB
// are refused before the handler sees them. A connection is closed if the head
// of its next request, or the peer's reading of an answer, takes too long,
// however often a byte arrives. A connection beyond the limit ends the one that
// has waited longest without a complete request, so that idle connections keep
// no honest request from its answer.
class HttpServer {
 public:
  // Called on the server's thread. While it runs, no other request is served.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  struct Options {
    // The address to listen on. Port 0 selects a free port.
    std::string host = "127.0.0.1";
    int port = 0;
    // The certificate chain and its private key, as PEM. Empty: no TLS.
    std::string certificate;
    std::string key;
    int connections = 128;
    // For the head of a request, from the beginning of the connection or the
    // end of the previous answer.
    absl::Duration request_timeout = absl::Seconds(10);
    // For sending an answer.
    absl::Duration answer_timeout = absl::Seconds(60);
  };

  // Starts to serve. Returns Unavailable, with the system's error, if the
  // address cannot be bound, and InvalidArgument if the certificate or the key
  // cannot be used.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const Options& options, Handler handler);
  // Closes all connections, and waits for a handler that runs.
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
