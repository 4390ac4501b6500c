// Finds the reason why a gRPC channel does not connect, which gRPC does not
// report to applications.
#ifndef TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
#define TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_

#include <string>

#include "absl/status/status.h"
#include "common/transport/security.h"

namespace tributary {

// Connects to the server at host:port, checks whether it uses TLS as `security`
// does and whether either side refuses the other's certificate, and
// disconnects. If one of these prevents a connection, returns
// FailedPrecondition with the reason and the remedy. Otherwise returns OK;
// there may be other reasons, for example that the server is not listening.
// Blocks for up to about two seconds.
absl::Status Diagnose(const std::string& address, const Security& security);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_DIAGNOSIS_H_
