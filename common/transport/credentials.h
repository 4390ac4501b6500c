// gRPC credentials for the settings in Security: mutual TLS, whose files are
// reloaded while the process runs, or plaintext; and the token, which is sent
// with every call.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_
#define TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/transport/authorizer.h"
#include "common/transport/security.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace tributary {

// Returns the credentials of a client. With TLS, they require the server to
// present a certificate that has the role that CreateChannel selects and that
// the authority of `security` has issued.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const Security& security);

// Returns interceptors that add the newest token to every call; none if
// `security` has no token.
std::vector<
    std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeTokenInterceptors(const Security& security);

// Returns credentials that check every call with `authorizer` before a service
// receives it. With TLS, requires the client to present a certificate that the
// authority of `security` has issued; otherwise the handshake fails.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    const Security& security, std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CREDENTIALS_H_
