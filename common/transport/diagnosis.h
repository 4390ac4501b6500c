// Finds out why a gRPC channel does not connect: gRPC tells applications no
// more than that it did not.
#ifndef TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
#define TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_

#include <string>

#include "absl/status/status.h"
#include "common/transport/security.h"

namespace tributary {

// Connects to the server at host:port by itself, looks whether it speaks TLS
// as `security` does and whether either side refuses the other's certificate,
// and hangs up. FailedPrecondition says which, and what to do; OK: no such
// reason was found (nobody listens, say). Blocks for up to some two seconds.
absl::Status Diagnose(const std::string& address, const Security& security);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
