// The certificate with which a process serves HTTPS.
#ifndef TRIBUTARY_DEPLOY_FLAGS_HTTP_CERTIFICATE_H_
#define TRIBUTARY_DEPLOY_FLAGS_HTTP_CERTIFICATE_H_

#include <functional>

#include "absl/status/statusor.h"
#include "common/http/http_server.h"
#include "common/transport/security.h"

namespace tributary {

// Returns the function for HttpServer::Options::certificate that reads the
// certificate and the key of `security` from their files, so that the HTTP
// server uses changed files as the gRPC server does. Returns null if `security`
// does not use TLS.
std::function<absl::StatusOr<HttpServer::Certificate>()> HttpCertificateOf(
    const Security& security);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_HTTP_CERTIFICATE_H_
