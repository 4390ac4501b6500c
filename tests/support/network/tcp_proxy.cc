#include "tests/support/network/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// A sender must wait while this many bytes are queued for its receiver.
constexpr size_t kMostQueued = 1 << 20;
constexpr size_t kReadBytes = 64 << 10;
// Length of the burst that a rate-limited link may send at once.
constexpr double kBurstSeconds = 0.02;
constexpr int kThrottlePollMs = 5;
constexpr size_t kMostRecorded = 64 << 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void CloseSocket(int socket, bool reset) {
  if (socket < 0) return;
  const linger now = {1, 0};
  if (reset) setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(socket);
}

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

TcpProxy::TcpProxy(uint64_t seed) : random_(seed) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 128) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) !=
          0) {
    std::abort();
  }
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Work(); });
}

TcpProxy::~TcpProxy() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  for (const auto& connection : connections_) {
    Close(connection.get(), /*reset=*/false);
  }
  close(listener_);
  close(wake_);
}

void TcpProxy::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void TcpProxy::SetServer(const std::string& address) {
  absl::MutexLock lock(&mu_);
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1),
                        &server_port_)) {
    std::abort();
  }
}

void TcpProxy::SetDelay(Direction direction, absl::Duration mean,
                        absl::Duration jitter) {
  absl::MutexLock lock(&mu_);
  links_[direction].delay = mean;
  links_[direction].jitter = jitter;
}

void TcpProxy::SetRate(Direction direction, int64_t bytes_per_second) {
  absl::MutexLock lock(&mu_);
  links_[direction].rate = bytes_per_second;
  Wake();
}

void TcpProxy::SetHeld(Direction direction, bool held) {
  absl::MutexLock lock(&mu_);
  links_[direction].held = held;
  Wake();
}

void TcpProxy::SetConnectionHeld(int number, bool held) {
  absl::MutexLock lock(&mu_);
  for (const auto& connection : connections_) {
    if (connection->number == number) connection->held = held;
  }
  Wake();
}

void TcpProxy::SetRefusing(bool refusing) {
  absl::MutexLock lock(&mu_);
  refusing_ = refusing;
}

void TcpProxy::CutAfter(Direction direction, int64_t bytes) {
  Arm(direction, Kind::kCut, bytes);
}

void TcpProxy::ResetAfter(Direction direction, int64_t bytes) {
  Arm(direction, Kind::kReset, bytes);
}

void TcpProxy::FlipAfter(Direction direction, int64_t bytes) {
  Arm(direction, Kind::kFlip, bytes);
}

void TcpProxy::Arm(Direction direction, Kind kind, int64_t bytes) {
  absl::MutexLock lock(&mu_);
  std::vector<Trigger>& triggers = links_[direction].triggers;
  triggers.push_back({kind, statistics_.bytes[direction] + bytes});
  std::stable_sort(
      triggers.begin(), triggers.end(),
      [](const Trigger& a, const Trigger& b) { return a.at < b.at; });
}

std::vector<int> TcpProxy::OpenConnections() const {
  absl::MutexLock lock(&mu_);
  std::vector<int> numbers;
  for (const auto& connection : connections_) {
    numbers.push_back(connection->number);
  }
  return numbers;
}

void TcpProxy::ResetAll() {
  absl::MutexLock lock(&mu_);
  for (const auto& connection : connections_) {
    Close(connection.get(), /*reset=*/true);
  }
  Wake();
}

void TcpProxy::Record() {
  absl::MutexLock lock(&mu_);
  recording_ = true;
}

std::string TcpProxy::Recorded(int connection) const {
  absl::MutexLock lock(&mu_);
  return recorded_[connection];
}

int TcpProxy::Replay(const std::string& bytes) {
  absl::MutexLock lock(&mu_);
  const int server = ConnectToServer();
  if (server < 0) return -1;
  Add(/*client=*/-1, server);
  Pipe* const pipe = &connections_.back()->pipes[kToServer];
  pipe->pieces.push_back({Clock::now(), bytes});
  pipe->queued = bytes.size();
  Wake();
  return connections_.back()->number;
}

TcpProxy::Statistics TcpProxy::statistics() const {
  absl::MutexLock lock(&mu_);
  return statistics_;
}

int TcpProxy::ConnectToServer() const {
  if (server_port_ == 0) return -1;
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(server_port_);
  // Does not block on loopback.
  if (connect(server, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    close(server);
    return -1;
  }
  return server;
}

void TcpProxy::Add(int client, int server) {
  const int on = 1;
  for (const int socket : {client, server}) {
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  auto connection = std::make_unique<Connection>();
  connection->number = statistics_.connections++;
  connection->pipes[kToServer].from = connection->pipes[kToClient].to = client;
  connection->pipes[kToServer].to = connection->pipes[kToClient].from = server;
  connections_.push_back(std::move(connection));
  recorded_.emplace_back();
}

void TcpProxy::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = refusing_ ? -1 : ConnectToServer();
    if (server < 0) {
      ++statistics_.refused;
      CloseSocket(client, /*reset=*/true);
    } else {
      Add(client, server);
    }
  }
}

void TcpProxy::Close(Connection* connection, bool reset) {
  if (std::exchange(connection->broken, true)) return;
  CloseSocket(connection->pipes[kToServer].from, reset);
  CloseSocket(connection->pipes[kToServer].to, reset);
}

bool TcpProxy::Flows(const Connection& connection, int direction) const {
  return !connection.broken && !connection.held && !links_[direction].held;
}

void TcpProxy::Read(Connection* connection, int direction) {
  Pipe* const pipe = &connection->pipes[direction];
  if (pipe->from < 0 || pipe->ended) return;
  const Link& link = links_[direction];
  std::string bytes(kReadBytes, '\0');
  while (pipe->queued < kMostQueued) {
    const ssize_t got =
        recv(pipe->from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && WouldBlock()) return;
    if (got < 0) {
      Close(connection, /*reset=*/true);
      return;
    }
    if (got == 0) {
      pipe->ended = true;
      return;
    }
    const absl::string_view read(bytes.data(), static_cast<size_t>(got));
    std::string* const record = &recorded_[connection->number];
    if (recording_ && direction == kToServer &&
        record->size() < kMostRecorded) {
      absl::StrAppend(record, read);
    }
    const double jitter =
        std::uniform_real_distribution<double>(-1, 1)(random_);
    Clock::time_point due =
        Clock::now() +
        absl::ToChronoMicroseconds(
            std::max(link.delay + jitter * link.jitter, absl::ZeroDuration()));
    if (!pipe->pieces.empty()) due = std::max(due, pipe->pieces.back().due);
    pipe->pieces.push_back({due, std::string(read)});
    pipe->queued += read.size();
  }
}

int64_t TcpProxy::Allowance(const Link& link) const {
  return link.rate == 0 ? static_cast<int64_t>(kReadBytes)
                        : static_cast<int64_t>(link.allowance);
}

bool TcpProxy::Deliver(Connection* connection, int direction, int64_t most) {
  Pipe* const pipe = &connection->pipes[direction];
  Link* const link = &links_[direction];
  std::string* const bytes = &pipe->pieces.front().bytes;
  int64_t count = std::min(most, static_cast<int64_t>(bytes->size()));
  int64_t* const delivered = &statistics_.bytes[direction];
  const bool hit =
      !link->triggers.empty() && link->triggers.front().at < *delivered + count;
  if (hit) {
    const Trigger trigger = link->triggers.front();
    const int64_t place = trigger.at - *delivered;
    if (trigger.kind == Kind::kFlip) {
      (*bytes)[static_cast<size_t>(place)] ^= 0x10;
    } else if (place == 0) {
      Close(connection, trigger.kind == Kind::kReset);
    } else {
      count = place;
    }
    if (trigger.kind == Kind::kFlip || place == 0) {
      link->triggers.erase(link->triggers.begin());
      ++statistics_.faults;
      return !connection->broken;
    }
  }
  ssize_t sent = count;
  if (pipe->to >= 0) {
    sent = send(pipe->to, bytes->data(), static_cast<size_t>(count),
                MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (sent < 0) {
    if (WouldBlock()) {
      pipe->full = true;
    } else {
      Close(connection, /*reset=*/true);
    }
    return false;
  }
  *delivered += sent;
  if (link->rate > 0) link->allowance -= static_cast<double>(sent);
  pipe->queued -= static_cast<size_t>(sent);
  bytes->erase(0, static_cast<size_t>(sent));
  if (bytes->empty()) pipe->pieces.pop_front();
  return true;
}

void TcpProxy::Move(Connection* connection, int direction) {
  Pipe* const pipe = &connection->pipes[direction];
  if (!Flows(*connection, direction)) return;
  Read(connection, direction);
  pipe->full = false;
  while (!connection->broken && !pipe->full && !pipe->pieces.empty() &&
         pipe->pieces.front().due <= Clock::now()) {
    const int64_t most = Allowance(links_[direction]);
    if (most == 0 || !Deliver(connection, direction, most)) break;
  }
  if (connection->broken || !pipe->ended || !pipe->pieces.empty() ||
      pipe->passed) {
    return;
  }
  pipe->passed = true;
  if (pipe->to >= 0) shutdown(pipe->to, SHUT_WR);
  // A replayed connection has no client that must close the other direction.
  if (pipe->to < 0 || connection->pipes[1 - direction].passed) {
    Close(connection, /*reset=*/false);
  }
}

int TcpProxy::PollTimeout() const {
  int timeout = -1;
  const auto at_most = [&timeout](int64_t milliseconds) {
    const int wait =
        static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 1000));
    timeout = timeout < 0 ? wait : std::min(timeout, wait);
  };
  for (const auto& connection : connections_) {
    for (const int direction : {kToServer, kToClient}) {
      const Pipe& pipe = connection->pipes[direction];
      if (!Flows(*connection, direction) || pipe.pieces.empty() || pipe.full) {
        continue;
      }
      const auto left = pipe.pieces.front().due - Clock::now();
      if (left > Clock::duration::zero()) {
        at_most(1 + std::chrono::duration_cast<std::chrono::milliseconds>(left)
                        .count());
      } else {
        at_most(kThrottlePollMs);
      }
    }
  }
  return timeout;
}

void TcpProxy::Work() {
  size_t turn = 0;
  while (true) {
    std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    int timeout = -1;
    {
      absl::MutexLock lock(&mu_);
      if (stop_) return;
      for (const auto& connection : connections_) {
        for (const int direction : {kToServer, kToClient}) {
          const Pipe& pipe = connection->pipes[direction];
          if (!Flows(*connection, direction)) continue;
          if (!pipe.ended && pipe.queued < kMostQueued) {
            polls.push_back({pipe.from, POLLIN, 0});
          }
          if (pipe.full) polls.push_back({pipe.to, POLLOUT, 0});
        }
      }
      timeout = PollTimeout();
    }
    poll(polls.data(), polls.size(), timeout);
    uint64_t ignored = 0;
    (void)!read(wake_, &ignored, sizeof(ignored));
    absl::MutexLock lock(&mu_);
    Accept();
    const Clock::time_point now = Clock::now();
    const double seconds =
        std::chrono::duration<double>(now - std::exchange(refilled_, now))
            .count();
    for (Link& link : links_) {
      const double rate = static_cast<double>(link.rate);
      link.allowance = std::min(link.allowance + rate * seconds,
                                std::max(rate * kBurstSeconds, 1.0));
    }
    // The first connection gets most of a slow link's rate, so the order
    // rotates.
    ++turn;
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection* const connection =
          connections_[(i + turn) % connections_.size()].get();
      for (const int direction : {kToServer, kToClient}) {
        Move(connection, direction);
      }
    }
    connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                      [](const auto& connection) {
                                        return connection->broken;
                                      }),
                       connections_.end());
  }
}

}  // namespace tributary
