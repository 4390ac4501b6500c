#include "deploy/flags/http_certificate.h"

#include "common/base/status_macros.h"

namespace tributary {

std::function<absl::StatusOr<HttpServer::Certificate>()> HttpCertificateOf(
    const Security& security) {
  if (!security.tls()) return nullptr;
  return [security]() -> absl::StatusOr<HttpServer::Certificate> {
    TRIBUTARY_ASSIGN_OR_RETURN(const Security texts, WithTexts(security));
    return HttpServer::Certificate{texts.tls_texts.certificate,
                                   texts.tls_texts.key};
  };
}

}  // namespace tributary
