// Requests to an HTTP server that runs. Input: the bytes that a peer sends.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/http/http_server.h"
#include "tests/common/http/raw_connection.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

// What a handler does with a request that it is given.
HttpResponse Answer(const HttpRequest& request) {
  TRIBUTARY_FUZZ_CHECK(!request.path.empty());
  HttpResponse response;
  response.body =
      absl::StrCat(request.path.size(),
                   QueryValue(request.query, "a").value_or(""), request.host);
  return response;
}

void Run(const std::string& bytes) {
  static const auto* const server =
      HttpServer::Start({}, &Answer).value().release();
  RawConnection connection(server->port());
  TRIBUTARY_FUZZ_CHECK(connection.connected());
  // In two parts, as a network may deliver them.
  connection.Send(bytes.substr(0, bytes.size() / 2));
  connection.Send(bytes.substr(bytes.size() / 2));
  connection.EndSending();
  const std::string answer = connection.ReadAll();
  // libevent answers in the version of the request.
  TRIBUTARY_FUZZ_CHECK(answer.empty() || absl::StartsWith(answer, "HTTP/"));
  // The server still answers others.
  TRIBUTARY_FUZZ_CHECK(
      absl::EndsWith(Get(server->port(), "/honest?a=b"), "\r\n\r\n7bx"));
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tributary::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
