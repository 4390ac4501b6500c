#include "common/transport/channel.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/monotonic_clock.h"
#include "common/transport/credentials.h"
#include "common/transport/diagnosis.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server_builder.h"

namespace tributary {
namespace {

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// Timeout of one try to connect, long enough for a busy machine. gRPC takes it
// from the minimum reconnect backoff, but retries a refused connection sooner.
constexpr int kConnectTimeoutMs = 5'000;

// Interval between two lookups of the coordinator's name while it cannot be
// reached.
constexpr absl::Duration kLookupInterval = absl::Seconds(1);

// A connection that takes longer than this is diagnosed, and once more after
// the same time. Each further diagnosis comes after twice the time of the one
// before, because a diagnosis is a connection, too: those of many workers would
// delay each other.
constexpr absl::Duration kDiagnosisInterval = absl::Seconds(1);

// The longest time that a wait for a connection continues after a request to
// stop.
constexpr absl::Duration kInterruptInterval = absl::Milliseconds(100);

// Keeps gRPC initialized until the process ends. Otherwise it would shut down
// with its last user, and the shutdown can wait up to ten seconds for a thread
// that polls sockets.
void KeepGrpc() {
  static const bool kept = [] {
    // gRPC logs every failed handshake, and any peer can cause any number of
    // them.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
      gpr_set_log_function([](gpr_log_func_args*) {});
    }
    grpc_init();
    return true;
  }();
  (void)kept;
}

// Watches the IP addresses of a host name. A coordinator that a scheduler has
// moved to a different machine keeps its name, but a channel looks the name up
// only every 30 seconds, and less often while it does not exist.
class NameWatch {
 public:
  explicit NameWatch(const std::string& address)
      : host_(address.substr(0, address.rfind(':'))), found_(Lookup()) {}

  // Returns true if the addresses have changed since construction. Looks them
  // up at most every kLookupInterval; the lookup blocks.
  bool Changed() {
    if (MonotonicNow() < next_) return false;
    next_ = MonotonicNow() + kLookupInterval;
    const std::set<std::string> now = Lookup();
    return !now.empty() && now != found_;
  }

 private:
  std::set<std::string> Lookup() const {
    std::set<std::string> addresses;
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host_.c_str(), nullptr, &hints, &found) != 0) {
      return addresses;
    }
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      addresses.emplace(reinterpret_cast<const char*>(one->ai_addr),
                        one->ai_addrlen);
    }
    freeaddrinfo(found);
    return addresses;
  }

  const std::string host_;
  const std::set<std::string> found_;
  absl::Time next_ = MonotonicNow() + kLookupInterval;
};

// The algorithms that a channel or server may use to compress messages, as
// bits: none. gRPC inflates a message before it checks its size, so a small
// message could fill the memory of the process that receives it.
constexpr int kNoCompression = 1 << GRPC_COMPRESS_NONE;

bool IsUnixSocket(const std::string& address) {
  return absl::StartsWith(address, "unix");
}

}  // namespace

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                             const Security& security,
                                             Role peer) {
  KeepGrpc();
  const Limits& limits = kDefaultLimits;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(limits.message_bytes);
  arguments.SetMaxSendMessageSize(limits.message_bytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   Milliseconds(limits.keepalive_interval));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   Milliseconds(limits.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A stream carries the whole exchange with one server, so channels to the
  // same address must not share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                   kNoCompression);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Tributary retries at a higher level; gRPC's retries would buffer whole
  // messages.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Loopback and cluster addresses need no proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (IsUnixSocket(address)) {
    return grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
  }
  if (security.tls()) {
    // The certificate must name the peer's role; the address is not checked.
    arguments.SetSslTargetNameOverride(RoleDnsName(peer));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, MakeChannelCredentials(security), arguments,
      MakeTokenInterceptors(security));
}

absl::Status AwaitConnected(grpc::Channel* channel, const std::string& address,
                            const Security& security, absl::Time deadline,
                            const std::function<bool()>& stop, Role peer) {
  // gRPC's wait cannot be interrupted, so this waits in short intervals.
  absl::Duration interval = kDiagnosisInterval;
  absl::Time diagnosis = MonotonicNow() + interval;
  int diagnoses = 0;
  absl::Status found;
  while (!stop()) {
    const absl::Duration wait =
        std::min(deadline - MonotonicNow(), kInterruptInterval);
    if (channel->WaitForConnected(absl::ToChronoTime(absl::Now() + wait))) {
      return absl::OkStatus();
    }
    if (MonotonicNow() >= deadline) break;
    if (MonotonicNow() < diagnosis || IsUnixSocket(address)) continue;
    const absl::Status last =
        std::exchange(found, Diagnose(address, security, peer));
    // A single failure may be due to files that are being replaced.
    if (!found.ok() && found == last) return found;
    if (++diagnoses > 1) interval *= 2;
    diagnosis = MonotonicNow() + interval;
  }
  return absl::DeadlineExceededError(
      absl::StrCat("no connection to ", address));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToCoordinator(
    const std::string& address, const Security& security,
    absl::Duration timeout, const std::function<bool()>& stop) {
  const absl::Time deadline = MonotonicNow() + timeout;
  do {
    NameWatch name(address);
    std::shared_ptr<grpc::Channel> channel = CreateChannel(address, security);
    const absl::Status connected =
        AwaitConnected(channel.get(), address, security, deadline,
                       [&] { return stop() || name.Changed(); });
    if (connected.ok()) return channel;
    if (absl::IsFailedPrecondition(connected)) return connected;
    if (stop()) return absl::CancelledError("stopped by request");
  } while (MonotonicNow() < deadline);
  const std::string name_problem = NameProblem(address);
  return absl::UnavailableError(absl::StrCat(
      "no coordinator at ", address, " within ", absl::FormatDuration(timeout),
      ": ",
      name_problem.empty()
          ? std::string("start `tributary server` there, or correct")
          : absl::StrCat(name_problem, "; correct"),
      " --coordinator"));
}

void ConfigureServer(const Limits& limits, grpc::ServerBuilder* builder) {
  KeepGrpc();
  builder->SetMaxReceiveMessageSize(limits.message_bytes);
  builder->SetMaxSendMessageSize(limits.message_bytes);
  const std::pair<const char*, int> arguments[] = {
      {GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes},
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_per_connection},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(limits.idle_timeout)},
      {GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive_interval)},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(limits.keepalive_timeout)},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
       Milliseconds(limits.min_ping_interval)},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
       Milliseconds(limits.handshake_timeout)},
      // Calls that announce compressed messages end with Unimplemented. A
      // compressed message of any other call is not inflated.
      {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kNoCompression},
      {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
      // A second server on the same port must fail to start.
      {GRPC_ARG_ALLOW_REUSEPORT, 0}};
  for (const auto& [name, value] : arguments) {
    builder->AddChannelArgument(name, value);
  }
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
