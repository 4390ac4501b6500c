// Tracks the open connections of a server, by peer, and decides whether a new
// connection is allowed.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CONNECTION_TABLE_H_
#define TRIBUTARY_COMMON_TRANSPORT_CONNECTION_TABLE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/limits.h"

namespace tributary {

// Counts open connections without being told when they close: gRPC owns
// accepted sockets and does not report when it closes one. The table remembers
// the inode of each descriptor, which is unique to a socket. When a limit is
// reached, it checks which descriptors still refer to the same inode. Not
// thread-safe. Makes system calls, but never blocks.
class ConnectionTable {
 public:
  enum class Answer { kWelcome, kPeerHasTooMany, kTooMany, kTooFast };

  // Uses only those fields of `limits` that concern connections.
  explicit ConnectionTable(const Limits& limits);

  // Returns kWelcome if the new connection `socket` is allowed, otherwise the
  // reason why it is not. An allowed socket counts as a connection until it is
  // closed. `peer` is the remote address without its port, with the user if the
  // peer is on this machine. When a limit is reached, a closed socket may still
  // count for up to kLookInterval. If `peer` has reached its limit, the new
  // connection replaces the oldest one that has been open for kSilence and has
  // sent nothing but the beginning of a handshake: shuts that socket down.
  // `now` must never decrease.
  Answer Add(int socket, absl::string_view peer, absl::Time now);

  // Shuts all connections down, which ends reads and writes that wait for the
  // peer. gRPC still owns and closes the sockets.
  void ShutDownAll() const;

  // Number of connections, including closed ones that were not detected yet.
  int size() const { return size_; }

  // Minimum time between two scans for closed connections. Limits the CPU time
  // that peers can cause when a limit is reached.
  static constexpr absl::Duration kLookInterval = absl::Milliseconds(100);
  // Time that a new connection has for the beginning of its handshake before
  // another one may replace it. Both HTTP/2 and TLS clients speak first.
  static constexpr absl::Duration kSilence = absl::Seconds(1);

 private:
  struct Peer {
    absl::flat_hash_set<int> sockets;
    absl::Time looked = absl::InfinitePast();
  };
  // A token bucket (rate limiter); each new connection takes one token.
  struct Bucket {
    double level = 0;
    absl::Time filled = absl::InfinitePast();
  };
  struct Slot {
    ino_t inode = 0;
    dev_t device = 0;
    std::string peer;  // Empty if the descriptor is not an accepted connection.
    absl::Time accepted = absl::InfinitePast();
  };

  bool IsOpen(int socket) const;
  static bool TakeFrom(Bucket* bucket, double most, double per_second,
                       absl::Time now);
  bool MayConnect(const std::string& peer, absl::Time now);
  void Remove(int socket);
  void DropClosed(const std::string& peer, absl::Time now);
  // Shuts the oldest silent connection of `peer` down and forgets it. Does
  // nothing if there is none.
  void DropSilent(const std::string& peer, absl::Time now);

  const Limits limits_;
  int size_ = 0;
  absl::Time looked_ = absl::InfinitePast();
  std::vector<Slot> slots_;  // The connections, indexed by descriptor.
  absl::flat_hash_map<std::string, Peer> peers_;
  Bucket shared_;
  // The token bucket of each address that has connected recently. An address
  // without an entry has a full bucket.
  absl::flat_hash_map<std::string, Bucket> own_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CONNECTION_TABLE_H_
