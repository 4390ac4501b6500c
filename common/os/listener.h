// Finds out which users listen on a port of this machine.
#ifndef TRIBUTARY_COMMON_OS_LISTENER_H_
#define TRIBUTARY_COMMON_OS_LISTENER_H_

#include <sys/types.h>

#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace tributary {

// Returns the users whose sockets accept TCP connections to `port` at `host`, a
// numeric address of this machine, in this process's network namespace. Empty
// if nobody listens there. The kernel lets only one user listen on an address
// and a port; there may be several if sockets for IPv4 and IPv6 share the port,
// so treat each of them as a possible peer. Does not connect. Returns
// InvalidArgument if `host` is not numeric, and Unavailable if the kernel's
// table of sockets cannot be read.
absl::StatusOr<std::set<uid_t>> ListenersAt(const std::string& host, int port);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LISTENER_H_
