// Which connections a server has, from whom, and whether one more is allowed.
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

// gRPC owns the sockets once it has them, and does not say when it closes one.
// So the table remembers what each descriptor was and, where a limit is
// reached, looks which of them still are: a socket's inode is its own. One
// thread at a time; looks, but never blocks.
class ConnectionTable {
 public:
  enum class Answer { kWelcome, kPeerHasTooMany, kTooMany, kTooFast };

  // Takes from `limits` what it says of connections.
  explicit ConnectionTable(const Limits& limits);

  // Whether the new socket may stay; if so it counts until it is closed. `peer`
  // is the other's address, without its port. A closed socket may go on to
  // count for up to kLookInterval of `now`, which never decreases.
  Answer Add(int socket, absl::string_view peer, absl::Time now);

  // Connections, some of which may be closed by now.
  int size() const { return size_; }

  // What many strangers at the limit can make us do is bounded by this.
  static constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

 private:
  struct Peer {
    absl::flat_hash_set<int> sockets;
    absl::Time looked = absl::InfinitePast();
  };
  // Permissions to connect, which come back with time.
  struct Bucket {
    double level = 0;
    absl::Time filled = absl::InfinitePast();
  };
  struct Slot {
    ino_t inode = 0;
    dev_t device = 0;
    std::string peer;  // Empty: no connection of ours.
  };

  bool IsOpen(int socket) const;
  static bool TakeFrom(Bucket* bucket, double most, double per_second,
                       absl::Time now);
  bool MayConnect(const std::string& peer, absl::Time now);
  void Forget(int socket);
  void DropClosed(const std::string& peer, absl::Time now);

  const Limits limits_;
  int size_ = 0;
  absl::Time looked_ = absl::InfinitePast();
  std::vector<Slot> slots_;  // By descriptor.
  absl::flat_hash_map<std::string, Peer> peers_;
  Bucket shared_;
  // Of addresses that connected lately; others have full ones.
  absl::flat_hash_map<std::string, Bucket> own_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CONNECTION_TABLE_H_
