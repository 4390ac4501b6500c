#include "common/transport/connection_acceptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/monotonic_clock.h"
#include "common/os/tcp_connection.h"

namespace tributary {
namespace {

constexpr int kBacklog = 1024;
// Number of sockets accepted from one listener before the loop checks the other
// listeners and the request to stop.
constexpr int kAcceptsPerTurn = 64;
// Number of descriptors that a server needs for files, logs, shared memory and
// its own calls.
constexpr int64_t kOwnDescriptors = 128;
// Pause after descriptors have run out.
constexpr int kExhaustedPauseMs = 20;
constexpr absl::Duration kWarningInterval = absl::Seconds(10);
constexpr char kUnixPrefix[] = "unix-abstract:";

int64_t DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(
      std::min<rlim_t>(limit.rlim_cur, int64_t{1} << 30));
}

int MostConnections(const Limits& limits) {
  const int64_t all = DescriptorLimit();
  const int64_t free = std::max(all - kOwnDescriptors, all / 2);
  return static_cast<int>(std::min<int64_t>(limits.connections, free));
}

Limits Within(Limits limits, int most_connections) {
  limits.connections = most_connections;
  return limits;
}

// Returns Unavailable with the text of errno. Preserves errno.
absl::Status SocketError(const std::string& what) {
  const int error = errno;
  const absl::Status status =
      absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
  errno = error;
  return status;
}

// Returns the address of the peer for the connection table and the log.
std::string AddressOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  }
  if (address.ss_family == AF_INET6) {
    in6_addr v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      return inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof(text));
    }
    // An IPv6 host usually owns all addresses of a /64 network.
    constexpr int kNetworkBytes = 8;
    std::fill(v6.s6_addr + kNetworkBytes, v6.s6_addr + sizeof(v6), 0);
    return absl::StrCat(inet_ntop(AF_INET6, &v6, text, sizeof(text)), "/64");
  }
  return "this host";
}

// Returns what a connection counts for. Users of this machine share an address,
// and must not keep each other out.
std::string PeerOf(int socket, const sockaddr_storage& address) {
  const std::string peer = AddressOf(address);
  const absl::optional<uid_t> user = UserOfTcpPeer(socket);
  return user.has_value() ? absl::StrCat(peer, " (user ", *user, ")") : peer;
}

bool IsOwnUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return false;
  }
  return peer.uid == geteuid() || peer.uid == 0;
}

// Splits "host:port" at the last colon, and removes brackets from the host.
bool Split(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->size() >= 2 && host->front() == '[' && host->back() == ']') {
    *host = host->substr(1, host->size() - 2);
  }
  return !host->empty() && !port->empty();
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void SetPort(int port, sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

// Returns a listening socket, whose options accepted sockets inherit; -1, with
// errno set, on failure.
int OpenListener(const addrinfo& address, absl::Duration user_timeout) {
  const int listener =
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int on = 1;
  const int off = 0;
  const int timeout_ms =
      static_cast<int>(absl::ToInt64Milliseconds(user_timeout));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
             sizeof(timeout_ms));
  if (address.ai_family == AF_INET6) {
    // "[::]" accepts IPv4 too, as gRPC's own listener does.
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(listener, address.ai_addr, address.ai_addrlen) == 0 &&
      listen(listener, kBacklog) == 0) {
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(const Limits& limits, Logger* log)
    : limits_(limits),
      log_(log),
      most_connections_(MostConnections(limits)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      table_(Within(limits, most_connections_)) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  Stop();
  if (wake_ >= 0) close(wake_);
  if (spare_ >= 0) close(spare_);
}

absl::StatusOr<int> ConnectionAcceptor::ListenTcp(const std::string& address,
                                                  Handler handler) {
  std::string host;
  std::string service;
  if (!Split(address, &host, &service)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is not host:port"));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found,
                                                               &freeaddrinfo);
  int port = 0;
  absl::Status status = absl::UnavailableError("no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (port != 0) SetPort(port, one->ai_addr);
    const int listener = OpenListener(*one, limits_.keepalive_timeout);
    if (listener < 0) {
      status = SocketError(address);
      // Fail if another process uses the port on any of the addresses.
      if (errno == EADDRINUSE) return status;
      continue;
    }
    port = PortOf(listener);
    doors_.push_back({listener, /*own_user_only=*/false, handler});
  }
  if (port == 0) return status;
  return port;
}

absl::Status ConnectionAcceptor::ListenUnix(const std::string& address,
                                            bool own_user_only,
                                            Handler handler) {
  absl::string_view name = address;
  sockaddr_un local = {};
  local.sun_family = AF_UNIX;
  // The name of an abstract socket begins with a zero byte.
  if (!absl::ConsumePrefix(&name, kUnixPrefix) ||
      name.size() >= sizeof(local.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is not an abstract Unix socket (unix-abstract:NAME)"));
  }
  std::copy(name.begin(), name.end(), local.sun_path + 1);
  const socklen_t size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int listener =
      socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<sockaddr*>(&local), size) != 0 ||
      listen(listener, kBacklog) != 0) {
    const absl::Status status = SocketError(address);
    if (listener >= 0) close(listener);
    return status;
  }
  doors_.push_back({listener, own_user_only, std::move(handler)});
  return absl::OkStatus();
}

void ConnectionAcceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
  }
  for (const Door& door : doors_) close(door.listener);
  doors_.clear();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> waiting = {{wake_, POLLIN, 0}};
  for (const Door& door : doors_) waiting.push_back({door.listener, POLLIN, 0});
  while (true) {
    if (poll(waiting.data(), waiting.size(), /*timeout=*/-1) < 0) continue;
    if (waiting[0].revents != 0) return;
    for (size_t i = 0; i < doors_.size(); ++i) {
      if (waiting[i + 1].revents != 0) AcceptAll(doors_[i]);
    }
  }
}

void ConnectionAcceptor::AcceptAll(const Door& door) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    const int socket =
        accept4(door.listener, reinterpret_cast<sockaddr*>(&address), &size,
                SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      if (Admit(door, socket, PeerOf(socket, address))) door.handler(socket);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      TurnOneAway(door);
      return;
    }
    // Any other error belongs to a peer that disconnected while it was queued.
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
  }
}

bool ConnectionAcceptor::Admit(const Door& door, int socket,
                               const std::string& peer) {
  std::string reason;
  if (door.own_user_only && !IsOwnUser(socket)) {
    reason = "a process of another user, over the Unix socket";
  } else {
    switch (table_.Add(socket, peer, MonotonicNow())) {
      case ConnectionTable::Answer::kWelcome:
        return true;
      case ConnectionTable::Answer::kPeerHasTooMany:
        reason = absl::StrCat("more than ", limits_.connections_per_peer,
                              " from ", peer, " (Limits.connections_per_peer)");
        break;
      case ConnectionTable::Answer::kTooFast:
        reason = absl::StrCat("too many per second from ", peer,
                              " (Limits.new_connections_per_second)");
        break;
      case ConnectionTable::Answer::kTooMany:
        reason = absl::StrCat("more than ", most_connections_,
                              " in all (Limits.connections, or descriptors: "
                              "ulimit -n)");
        break;
    }
  }
  close(socket);
  Warn(reason);
  return false;
}

void ConnectionAcceptor::TurnOneAway(const Door& door) {
  Warn("no file descriptors left: raise ulimit -n");
  if (spare_ >= 0) close(spare_);
  const int socket = accept4(door.listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) close(socket);
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pollfd stop = {wake_, POLLIN, 0};
  poll(&stop, 1, kExhaustedPauseMs);
}

void ConnectionAcceptor::Warn(const std::string& text) {
  ++refused_;
  const absl::Time now = MonotonicNow();
  if (now - warned_ < kWarningInterval) return;
  warned_ = now;
  log_->Warning("refused %d connection(s); the last: %s", refused_, text);
  refused_ = 0;
}

void RaiseDescriptorLimit(int connections) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + kOwnDescriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tributary
