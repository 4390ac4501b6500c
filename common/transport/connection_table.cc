#include "common/transport/connection_table.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "common/os/tcp_connection.h"

namespace tributary {
namespace {

// Returns true if less than an HTTP/2 client's first bytes (RFC 9113, 3.4) has
// arrived. False if `socket` is not a TCP connection.
bool IsSilent(int socket) {
  constexpr uint64_t kPrefaceBytes = 24;
  return BytesReceived(socket).value_or(kPrefaceBytes) < kPrefaceBytes;
}

}  // namespace

ConnectionTable::ConnectionTable(const Limits& limits) : limits_(limits) {}

bool ConnectionTable::TakeFrom(Bucket* bucket, double most, double per_second,
                               absl::Time now) {
  const double come = absl::ToDoubleSeconds(now - bucket->filled) * per_second;
  bucket->level = std::min(most, bucket->level + come);
  bucket->filled = now;
  if (bucket->level < 1) return false;
  bucket->level -= 1;
  return true;
}

bool ConnectionTable::MayConnect(const std::string& peer, absl::Time now) {
  // Bounds the number of buckets; a full bucket equals a missing one and is
  // removed.
  constexpr size_t kMostBuckets = 4096;
  if (own_.size() >= kMostBuckets) {
    const absl::Time full =
        now - absl::Seconds(limits_.new_connections_per_peer);
    absl::erase_if(own_, [full](const auto& entry) {
      return entry.second.filled <= full;
    });
  }
  const bool known = own_.contains(peer) || own_.size() < kMostBuckets;
  if (known && TakeFrom(&own_[peer], limits_.new_connections_per_peer,
                        /*per_second=*/1, now)) {
    return true;
  }
  constexpr int kSecondsAtOnce = 10;
  return TakeFrom(&shared_, kSecondsAtOnce * limits_.new_connections_per_second,
                  limits_.new_connections_per_second, now);
}

bool ConnectionTable::IsOpen(int socket) const {
  const Slot& slot = slots_[socket];
  struct stat info;
  return fstat(socket, &info) == 0 && info.st_ino == slot.inode &&
         info.st_dev == slot.device;
}

void ConnectionTable::Remove(int socket) {
  Slot& slot = slots_[socket];
  const auto peer = peers_.find(slot.peer);
  peer->second.sockets.erase(socket);
  if (peer->second.sockets.empty()) peers_.erase(peer);
  slot = Slot();
  --size_;
}

void ConnectionTable::DropClosed(const std::string& peer, absl::Time now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || now - found->second.looked < kLookInterval) {
    return;
  }
  found->second.looked = now;
  const std::vector<int> sockets(found->second.sockets.begin(),
                                 found->second.sockets.end());
  for (const int socket : sockets) {
    if (!IsOpen(socket)) Remove(socket);
  }
}

void ConnectionTable::DropSilent(const std::string& peer, absl::Time now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  int oldest = -1;
  for (const int socket : found->second.sockets) {
    const absl::Time accepted = slots_[socket].accepted;
    if (now - accepted >= kSilence &&
        (oldest < 0 || accepted < slots_[oldest].accepted) && IsOpen(socket) &&
        IsSilent(socket)) {
      oldest = socket;
    }
  }
  if (oldest < 0) return;
  // gRPC owns the descriptor, and may close it on its own thread after IsOpen
  // has seen it. Then this ends whatever connection has its number by now; all
  // connections of this process may end at any time.
  shutdown(oldest, SHUT_RDWR);
  Remove(oldest);
}

void ConnectionTable::ShutDownAll() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int socket = static_cast<int>(i);
    // As in DropSilent, the connection may have been closed in the meantime.
    if (!slots_[i].peer.empty() && IsOpen(socket)) shutdown(socket, SHUT_RDWR);
  }
}

ConnectionTable::Answer ConnectionTable::Add(int socket, absl::string_view peer,
                                             absl::Time now) {
  if (static_cast<size_t>(socket) >= slots_.size()) slots_.resize(socket + 1);
  // The kernel reused the descriptor, so its previous connection is closed.
  if (!slots_[socket].peer.empty()) Remove(socket);
  const std::string key(peer);
  if (!MayConnect(key, now)) return Answer::kTooFast;
  const auto count = [&] {
    const auto found = peers_.find(key);
    return found == peers_.end() ? 0 : found->second.sockets.size();
  };
  const size_t most = limits_.connections_per_peer;
  if (count() >= most) DropClosed(key, now);
  if (count() >= most) DropSilent(key, now);
  if (count() >= most) return Answer::kPeerHasTooMany;
  if (size_ >= limits_.connections && now - looked_ >= kLookInterval) {
    looked_ = now;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const int other = static_cast<int>(i);
      if (!slots_[i].peer.empty() && !IsOpen(other)) Remove(other);
    }
  }
  if (size_ >= limits_.connections) return Answer::kTooMany;
  struct stat info;
  if (fstat(socket, &info) != 0) return Answer::kTooMany;
  slots_[socket] = {info.st_ino, info.st_dev, key, now};
  peers_[key].sockets.insert(socket);
  ++size_;
  return Answer::kWelcome;
}

}  // namespace tributary
