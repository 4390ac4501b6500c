#include "common/transport/channel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace tributary {
namespace {

// Chunk, header and room for the coordinator's tables.
constexpr int kMaxMessageBytes = kMaxChunkBytes + (1 << 20);
constexpr int kMaxMetadataBytes = 8 << 10;

// A peer whose machine vanished is noticed after the sum of the two. Shorter
// would take a busy machine for a dead one.
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// The server must allow pings a little faster than clients send them, or it
// hangs up with ENHANCE_YOUR_CALM.
constexpr int kMinPingIntervalMs = 5'000;

// A peer that opens a connection and says nothing is dropped after this; gRPC's
// default is two minutes.
constexpr int kHandshakeTimeoutMs = 10'000;

// How long one attempt to connect may take, on a busy machine as well. (gRPC
// takes this time from what it calls the minimum backoff; after an attempt that
// was refused it still tries again soon.)
constexpr int kConnectTimeoutMs = 5'000;

// How long a wait for a connection goes on after it should stop.
constexpr absl::Duration kInterruptInterval = absl::Milliseconds(100);

// gRPC stays up until the process ends. It would shut down with its last user,
// and wait up to ten seconds for a thread of its own that watches sockets which
// were once full.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

}  // namespace

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address) {
  KeepGrpc();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Each stream carries the whole exchange with one server, so channels to one
  // address must not share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // We retry on our own terms: gRPC's retries would buffer whole messages.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Loopback and cluster addresses are never reached through a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

bool AwaitConnected(grpc::Channel* channel, absl::Time deadline,
                    const std::function<bool()>& stop) {
  // gRPC's own wait cannot be interrupted; short ones can be given up between.
  while (!stop()) {
    const absl::Time soon = absl::Now() + kInterruptInterval;
    if (channel->WaitForConnected(
            absl::ToChronoTime(std::min(deadline, soon)))) {
      return true;
    }
    if (absl::Now() >= deadline) return false;
  }
  return false;
}

void ConfigureServer(grpc::ServerBuilder* builder) {
  KeepGrpc();
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kMinPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              kHandshakeTimeoutMs);
  // Two servers on one port by accident must be an error.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& peer) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      peer.empty()
                          ? status.error_message()
                          : absl::StrCat(peer, ": ", status.error_message()));
}

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()));
}

}  // namespace tributary
