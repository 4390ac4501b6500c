// The network addresses of this machine.
#ifndef TRIBUTARY_COMMON_OS_LOCAL_HOST_H_
#define TRIBUTARY_COMMON_OS_LOCAL_HOST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Returns the numeric local address from which this machine reaches `address`
// (host:port). On a machine with several networks, this is the address in the
// network through which the kernel reaches `address`. Sends nothing. Returns
// InvalidArgument if `address` is not host:port, and Unavailable if the host is
// unknown or there is no route to it.
absl::StatusOr<std::string> LocalHostTowards(const std::string& address);

// Returns true if a listener at `host` is reachable from this machine only:
// 127.0.0.0/8, ::1 or localhost.
bool IsLoopback(absl::string_view host);

// Returns true if `host` is a numeric address of this machine, on the loopback
// or on another interface.
bool IsOfThisMachine(const std::string& host);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LOCAL_HOST_H_
