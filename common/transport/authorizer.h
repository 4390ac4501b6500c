// Checks whether a peer may call a method, for every method of every service.
#ifndef TRIBUTARY_COMMON_TRANSPORT_AUTHORIZER_H_
#define TRIBUTARY_COMMON_TRANSPORT_AUTHORIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/transport/security.h"
#include "grpcpp/security/auth_metadata_processor.h"

namespace tributary {

// kAuthorizationHeader is the metadata key under which a call carries its
// token. AuthorizationValue returns the metadata value for a token.
inline constexpr char kAuthorizationHeader[] = "authorization";
std::string AuthorizationValue(absl::string_view token);

// Decides whether a caller may call a method, from the caller's token and role.
// A table lists the roles that may call each method; a new method must be added
// to this table, because methods that are not in it are refused. Callers of
// every role may call the methods of health checks. gRPC reads the first
// message of a call only after this check, so a refused caller cannot make the
// process store one. Thread-safe. Never blocks.
class Authorizer {
 public:
  // If `security` enables TLS, the certificate of a caller must name a role
  // that may call the method. If `security` has tokens, the caller must send
  // one of them.
  explicit Authorizer(const Security& security);

  // `path` is "/package.Service/Method". `authorization` is the value of the
  // call's metadata for kAuthorizationHeader; empty if there is none.
  // `dns_names` are the DNS names in the caller's verified certificate. Returns
  // Unauthenticated or PermissionDenied if the call is refused; the message
  // states what the caller should do. Compares tokens in constant time, so the
  // duration of the call reveals nothing about the expected token.
  absl::Status Check(absl::string_view path, absl::string_view authorization,
                     const std::vector<absl::string_view>& dns_names) const;

 private:
  absl::Status CheckToken(absl::string_view authorization) const;
  absl::Status CheckRole(absl::string_view path,
                         const std::vector<Role>& allowed,
                         const std::vector<absl::string_view>& dns_names) const;

  const Security security_;
};

// Returns a processor with which gRPC checks every call before a service
// receives it. The processor calls Authorizer::Check.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallGuard(
    std::shared_ptr<const Authorizer> authorizer);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_AUTHORIZER_H_
