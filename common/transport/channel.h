// How Tributary's processes reach one another over gRPC: addresses, limits and
// keepalive, the same on both ends.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_
#define TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/transport/security.h"
#include "grpcpp/support/status.h"

namespace grpc {
class Channel;
class ServerBuilder;
}  // namespace grpc

namespace tributary {

// Peers that differ in this number do not understand each other.
inline constexpr int kProtocolVersion = 1;

// A channel to host:port, or to a Unix socket, with a connection of its own.
// Never fails here: calls do. To a Unix socket goes neither TLS nor token: it
// belongs to this host, whose kernel tells the server who we are.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                             const Security& security = {});

// Waits until a channel made with these arguments is connected.
// DeadlineExceeded when it is not by `deadline`, of MonotonicNow, or soon after
// `stop` returns true; `stop` is asked on this thread. FailedPrecondition,
// within five seconds, if the two sides will never understand each other: one
// of them without TLS, or a certificate that the other refuses.
absl::Status AwaitConnected(grpc::Channel* channel, const std::string& address,
                            const Security& security, absl::Time deadline,
                            const std::function<bool()>& stop);

// A channel to the coordinator, connected. Unavailable when there is none
// within `timeout`, Cancelled when `stop` has returned true, FailedPrecondition
// as above.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, const Security& security,
    absl::Duration timeout, const std::function<bool()>& stop);

// Sets the limits that CreateChannel's counterpart needs.
void ConfigureServer(const Limits& limits, grpc::ServerBuilder* builder);

// The same code and message. `peer`, if not empty, is put in front:
// "127.0.0.1:1234: ...".
absl::Status FromGrpc(const grpc::Status& status, const std::string& peer = "");
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_
