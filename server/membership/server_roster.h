// The coordinator's view of a job's servers.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_SERVER_ROSTER_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_SERVER_ROSTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Sends orders to one server.
class ServerLink {
 public:
  virtual ~ServerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block
  // and must not call the coordinator.
  virtual void Send(const ServerOrder& order) = 0;
  // Ends the connection with this status, after all queued orders. The same
  // restrictions apply.
  virtual void Close(const absl::Status& status) = 0;
};

// The servers by shard, with their stage of joining and their leases. Not
// thread-safe.
class ServerRoster {
 public:
  struct Server {
    ServerLink* link = nullptr;  // Null: not connected.
    std::string address;
    LocalAddress local_address;
    std::optional<JournalHoldings> replicas;
    bool configured = false;
    bool replicated = false;  // Its initial state is replicated.
    bool gone = false;
    // Infinite for the server in the coordinator's own process.
    absl::Time last_heard;
    int64_t version = -1;  // From its newest heartbeat.
  };

  explicit ServerRoster(int servers) : servers_(servers) {}

  // `link` must stay valid until Remove. Errors name the flag to correct.
  absl::Status Add(const Enlist& enlist, ServerLink* link, absl::Time now);
  void SetHeard(int shard, absl::Time now);
  void SetVersion(int shard, int64_t version) {
    servers_[shard].version = version;
  }
  // Shards of the servers that sent nothing for `lease`.
  std::vector<int> Expired(absl::Time now, absl::Duration lease) const;
  // Extends all leases by `gap`.
  void Forgive(absl::Duration gap);
  void SetConfigured(int shard) { servers_[shard].configured = true; }
  void SetReplicated(int shard) { servers_[shard].replicated = true; }
  // Returns false if the server was not connected, or was removed before: an
  // attempt may end while a server that it has lost enlists again.
  bool Remove(int shard);

  bool all_there() const;
  // The first shard whose server is not connected. -1: none is missing.
  int FirstMissing() const;
  bool all_configured() const;
  bool all_replicated() const;
  bool none_there() const;

  // Sends `order` to all connected servers.
  void Send(const ServerOrder& order);
  // Sends each connected server its own order.
  void SendEach(const std::function<ServerOrder(int)>& order_to);
  void Close(const absl::Status& status);

  // Servers by shard.
  const std::vector<Server>& servers() const { return servers_; }

 private:
  std::vector<Server> servers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_SERVER_ROSTER_H_
