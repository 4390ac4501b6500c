// The machine's own addresses.
#ifndef TRIBUTARY_COMMON_OS_LOCAL_HOST_H_
#define TRIBUTARY_COMMON_OS_LOCAL_HOST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// The number of the address from which this machine reaches `address`
// (host:port): of several, that of the right network. Sends nothing.
// InvalidArgument or Unavailable, with the name, if it has no way there.
absl::StatusOr<std::string> LocalHostTowards(const std::string& address);

// Whether only this machine can reach a listener at `host`: 127.0.0.0/8, ::1
// or localhost.
bool IsLoopback(absl::string_view host);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_LOCAL_HOST_H_
