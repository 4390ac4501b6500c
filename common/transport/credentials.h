// gRPC credentials for Security: mutual TLS whose files are reloaded while the
// process runs, or plaintext; and the token in every call.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_
#define TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/authorization.h"
#include "common/transport/security.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace tributary {

// Delay after which new connections use changed files.
inline constexpr absl::Duration kReloadInterval = absl::Seconds(1);

// With TLS, requires the server to present a certificate of the same authority
// with the role server.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const Security& security);

// Adds the token to every call. Returns an empty list if `token` is empty.
std::vector<
    std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenInterceptors(const std::string& token);

// Returns credentials that check every call with `authorizer` before a service
// receives it. With TLS, requires the client to present a certificate of the
// same authority; otherwise the handshake fails.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const Security& security, std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_
