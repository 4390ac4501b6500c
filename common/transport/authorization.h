// Decides which peers may call which methods, for every method of every
// service.
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

// The metadata key and value that carry the token of a call.
inline constexpr char kAuthorizationHeader[] = "authorization";
std::string AuthorizationValue(absl::string_view token);

// Checks the token and the role of a caller against a table of methods. Refuses
// methods that are not in the table, so a new method must be added to it.
// Everyone may call health checks. Immutable, so thread-safe. Never blocks.
class Authorizer {
 public:
  // With `certificates` a caller's certificate must name a role that may call
  // the method. With a non-empty `token` the caller must present the token.
  Authorizer(bool certificates, const std::string& token);

  // `path` is "/package.Service/Method". `authorization` is the call's
  // metadata; empty: none. `dns_names` are those of the caller's verified
  // certificate. Returns Unauthenticated or PermissionDenied, with what the
  // caller should do. Takes the same time for every wrong token.
  absl::Status Check(absl::string_view path, absl::string_view authorization,
                     const std::vector<absl::string_view>& dns_names) const;

 private:
  absl::Status CheckToken(absl::string_view authorization) const;
  absl::Status CheckRole(absl::string_view path,
                         const std::vector<Role>& allowed,
                         const std::vector<absl::string_view>& dns_names) const;

  const bool certificates_;
  // Digest of the expected metadata; empty: no token is expected.
  const std::string digest_;
};

// Returns a processor through which gRPC checks every call with `authorizer`
// before a service receives it.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallGuard(
    std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_AUTHORIZATION_H_
