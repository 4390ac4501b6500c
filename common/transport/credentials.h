// gRPC's credentials for our Security: TLS in both directions whose files are
// read again while the process runs, or plaintext, and the token in every call.
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

// How long after a change of the files new connections use them.
inline constexpr absl::Duration kReloadInterval = absl::Seconds(1);

// With TLS the server must present a certificate of our authority with the role
// server.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const Security& security);

// Puts the token into every call; empty without one.
std::vector<
    std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenInterceptors(const std::string& token);

// Credentials that ask `authorizer` before any service sees a call. With TLS
// the client must present a certificate of our authority; without one the
// connection ends in the handshake.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const Security& security, std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_
