// The servers of a job, as the coordinator knows them.
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

// Where orders to one server go.
class ServerLink {
 public:
  virtual ~ServerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block,
  // nor call the coordinator.
  virtual void Send(const ServerOrder& order) = 0;
  // Ends the connection with this status, after what was sent. Same rules.
  virtual void Close(const absl::Status& status) = 0;
};

// Not thread-safe.
class ServerRoster {
 public:
  struct Server {
    ServerLink* link = nullptr;  // Null: not there.
    std::string address;
    LocalAddress local_address;
    std::optional<JournalHoldings> replicas;
    bool configured = false;
    bool replicated =
        false;  // What it begins with is kept by another one, too.
    bool gone = false;
    // Infinite: in the coordinator's own process.
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
  // Those that were not heard of for so long.
  std::vector<int> Expired(absl::Time now, absl::Duration lease) const;
  // The time `gap` does not count.
  void Forgive(absl::Duration gap);
  void SetConfigured(int shard) { servers_[shard].configured = true; }
  void SetReplicated(int shard) { servers_[shard].replicated = true; }
  // False if it was not there, or was removed once before: an attempt may end
  // while a server that it has lost enlists again.
  bool Remove(int shard);

  bool all_there() const;
  // -1: none is missing.
  int FirstMissing() const;
  bool all_configured() const;
  bool all_replicated() const;
  bool none_there() const;

  // To, or of, all that are there.
  void Send(const ServerOrder& order);
  // Each gets its own, by shard.
  void SendEach(const std::function<ServerOrder(int)>& order_to);
  void Close(const absl::Status& status);

  // By shard.
  const std::vector<Server>& servers() const { return servers_; }

 private:
  std::vector<Server> servers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_SERVER_ROSTER_H_
