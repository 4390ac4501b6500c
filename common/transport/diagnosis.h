// Finds the reason why a gRPC channel does not connect, which gRPC does not
// report to applications.
#ifndef TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
#define TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_

#include <string>

#include "absl/status/status.h"
#include "common/transport/security.h"

namespace tributary {

// Connects briefly to the server at `address` (host:port), a process with the
// role `peer`. Checks whether the server and `security` agree on the use of
// TLS, and whether either side refuses the other's certificate. If one of these
// prevents a connection, returns FailedPrecondition with the reason and the
// remedy. Otherwise returns OK, which does not mean that a connection is
// possible: for example, the server may not be listening. Blocks while the name
// is resolved, and then for up to one second in each network operation, usually
// less than two seconds in all.
absl::Status Diagnose(const std::string& address, const Security& security,
                      Role peer = Role::kServer);

// Returns a text that can follow an error about `address` (host:port) if its
// host is a name that does not resolve, and an empty text otherwise. Blocks
// while the name is resolved.
std::string NameProblem(const std::string& address);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
