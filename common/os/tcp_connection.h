// What the kernel knows of a TCP connection.
#ifndef TRIBUTARY_COMMON_OS_TCP_CONNECTION_H_
#define TRIBUTARY_COMMON_OS_TCP_CONNECTION_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/types/optional.h"

namespace tributary {

// Returns the effective user of the process that opened the other end of the
// TCP connection `socket`, or nullopt if that end is on a different machine or
// in a different network namespace, or if the kernel cannot say (sock_diag(7)).
// Thread-safe; makes a few system calls and does not block.
absl::optional<uid_t> UserOfTcpPeer(int socket);

// Returns the number of bytes that have arrived at `socket`, read or not.
// Returns nullopt if it is not a TCP connection. Thread-safe.
absl::optional<uint64_t> BytesReceived(int socket);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_TCP_CONNECTION_H_
