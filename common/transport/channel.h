// How Tributary's processes reach one another over gRPC: addresses, limits and
// keepalive, the same on both ends.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_
#define TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/status.h"

namespace tributary {

// Peers that differ in this number do not understand each other.
inline constexpr int kProtocolVersion = 1;

// The largest chunk that a job may ask for, in bytes: with the margin for its
// header it must fit in a message.
inline constexpr int kMaxChunkBytes = 3 << 20;

// A channel to host:port, with a connection of its own. Never fails here: calls
// do.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address);

// Waits until the channel is connected. False when it is not by `deadline`, or
// a moment after `stop` returns true; `stop` is asked on this thread.
bool AwaitConnected(grpc::Channel* channel, absl::Time deadline,
                    const std::function<bool()>& stop);

// Sets the limits that CreateChannel's counterpart needs.
void ConfigureServer(grpc::ServerBuilder* builder);

// The same code and message. `peer`, if not empty, is put in front:
// "127.0.0.1:1234: ...".
absl::Status FromGrpc(const grpc::Status& status, const std::string& peer = "");
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHANNEL_H_
