// Who may call which method: the one place that decides it, for every method
// of every service.
#ifndef TRIBUTARY_COMMON_TRANSPORT_AUTHORIZATION_H_
#define TRIBUTARY_COMMON_TRANSPORT_AUTHORIZATION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/transport/security.h"
#include "grpcpp/security/auth_metadata_processor.h"

namespace tributary {

// The metadata key and value by which a call carries the token.
inline constexpr char kAuthorizationHeader[] = "authorization";
std::string AuthorizationValue(absl::string_view token);

// Methods that are not in the table are refused, so a new one is closed until
// it has been thought about. Health checks are open to everyone. Immutable, so
// safe from any thread; never blocks.
class Authorizer {
 public:
  // What a caller must show. With `certificates` its role must be one that may
  // call the method; with a token it must know that.
  Authorizer(bool certificates, const std::string& token);

  // `path` is "/package.Service/Method", `authorization` the call's metadata
  // (empty: none), `dns_names` those of the caller's verified certificate.
  // Unauthenticated or PermissionDenied, with what the caller should do. Takes
  // the same time for every wrong token.
  absl::Status Check(absl::string_view path, absl::string_view authorization,
                     const std::vector<absl::string_view>& dns_names) const;

 private:
  absl::Status CheckToken(absl::string_view authorization) const;
  absl::Status CheckRole(absl::string_view path,
                         const std::vector<Role>& allowed,
                         const std::vector<absl::string_view>& dns_names) const;

  const bool certificates_;
  // Of the expected metadata; empty: none is expected.
  const std::string digest_;
};

// Lets gRPC ask `authorizer` before any service sees the call.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallGuard(
    std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_AUTHORIZATION_H_
