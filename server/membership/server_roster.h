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

// Describes a process in the job's status. An unknown field is empty or 0.
struct ProcessIdentity {
  std::string host;
  int64_t pid = 0;
  std::string release;
  std::string device;
};

// Sends orders to one server.
class ServerLink {
 public:
  virtual ~ServerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block
  // and must not call the coordinator.
  virtual void Send(const ServerOrder& order) = 0;
  // Ends the connection with this status, after all queued orders. The
  // restrictions of Send apply.
  virtual void Close(const absl::Status& status) = 0;
};

// The servers of an attempt (one run of the protocol) by shard, with each
// server's stage of joining and the time of its last message. Not thread-safe.
class ServerRoster {
 public:
  struct Server {
    ServerLink* link = nullptr;  // Null if the server is not connected.
    std::string address;
    LocalAddress local_address;
    ProcessIdentity identity;
    std::optional<JournalHoldings> replicas;
    bool configured = false;
    // True if the next server holds a copy of the state with which this server
    // begins the attempt, or if the attempt begins at version 0, so that there
    // is no state to copy.
    bool replicated = false;
    bool gone = false;
    // Time of the server's last message. absl::InfiniteFuture() for the server
    // in the coordinator's own process, whose lease never expires.
    absl::Time last_heard;
    // The contents of the server's newest heartbeat. Before the first
    // heartbeat, `version` is -1, and `statistics` and `missing` are absent.
    int64_t version = -1;
    std::optional<ProcessStatistics> statistics;
    std::optional<MissingWork> missing;
  };

  explicit ServerRoster(int servers) : servers_(servers) {}

  // Adds the server that `enlist` describes. `link` must stay valid until
  // Remove. Returns InvalidArgument, naming the flags to correct, if the job
  // has no such shard, and AlreadyExists if the shard has a connected server.
  absl::Status Add(const Enlist& enlist, ServerLink* link, absl::Time now);
  void SetHeard(int shard, absl::Time now);
  void SetVersion(int shard, int64_t version) {
    servers_[shard].version = version;
  }
  void SetStatistics(int shard, const ProcessStatistics& statistics) {
    servers_[shard].statistics = statistics;
  }
  void SetMissing(int shard, const std::optional<MissingWork>& missing) {
    servers_[shard].missing = missing;
  }
  // Returns the shards of the servers that have sent nothing for `lease`.
  std::vector<int> Expired(absl::Time now, absl::Duration lease) const;
  // Extends the leases of all servers by `gap`.
  void Forgive(absl::Duration gap);
  void SetConfigured(int shard) { servers_[shard].configured = true; }
  void SetReplicated(int shard) { servers_[shard].replicated = true; }
  // Marks the server as disconnected. Returns false if it was not connected or
  // was removed before. A server can be removed twice, because it may enlist
  // again before the attempt ends.
  bool Remove(int shard);

  bool all_there() const;
  // Returns the first shard whose server is not connected, or -1 if all are
  // connected.
  int FirstMissing() const;
  bool all_configured() const;
  bool all_replicated() const;
  // Returns true if the newest heartbeat of every server reports `version`, or
  // a later one.
  bool all_have(int64_t version) const;
  bool none_there() const;

  // Sends `order` to all connected servers.
  void Send(const ServerOrder& order);
  // Sends each connected server the order that order_to(shard) returns.
  void SendEach(const std::function<ServerOrder(int)>& order_to);
  // Ends the connections of all servers with this status.
  void Close(const absl::Status& status);

  // Returns the servers, indexed by shard.
  const std::vector<Server>& servers() const { return servers_; }

 private:
  std::vector<Server> servers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_SERVER_ROSTER_H_
