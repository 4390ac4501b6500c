// Creates gRPC channels between the processes of Tributary and configures gRPC
// servers, with matching limits and keepalive settings at both ends.
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

// The version of Tributary's protocol between processes. Peers with different
// versions are incompatible.
inline constexpr int kProtocolVersion = 2;

// Returns a channel to `address`, host:port or a Unix socket. Does not wait for
// the connection: if it fails, calls on the channel return the error. Each
// channel has a connection of its own. With TLS, the process at `address` must
// have a certificate of the role `peer`. On a Unix socket, the kernel
// identifies the caller to the server, so the channel uses neither TLS nor the
// token.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                             const Security& security = {},
                                             Role peer = Role::kServer);

// Blocks until `channel`, which CreateChannel has created for `address`,
// `security` and `peer`, is connected. Returns DeadlineExceeded if the channel
// is not connected at `deadline`, a time on the clock of MonotonicNow. Calls
// `stop` repeatedly on the calling thread, and also returns DeadlineExceeded
// when `stop` returns true. Returns FailedPrecondition, within a few seconds,
// if the security settings are incompatible: only one side uses TLS, or one
// side refuses the other's certificate.
absl::Status AwaitConnected(grpc::Channel* channel, const std::string& address,
                            const Security& security, absl::Time deadline,
                            const std::function<bool()>& stop,
                            Role peer = Role::kServer);

// Connects to the coordinator (server 0) at `address`, and returns the
// connected channel. Calls `stop` repeatedly on the calling thread. Returns
// Cancelled when `stop` returns true, Unavailable if there is no connection
// within `timeout`, and FailedPrecondition if the security settings are
// incompatible (see AwaitConnected).
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, const Security& security,
    absl::Duration timeout, const std::function<bool()>& stop);

// Sets the options of a gRPC server that enforce `limits`: sizes of messages
// and metadata, concurrent streams, keepalive pings and timeouts.
void ConfigureServer(const Limits& limits, grpc::ServerBuilder* builder);

// Converts a gRPC status to an absl::Status with the same code and message. If
// `peer` is not empty, prepends it to the message of an error: "127.0.0.1:1234:
// ...".
absl::Status FromGrpc(const grpc::Status& status, const std::string& peer = "");
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_
