// Access to the in-memory replicas of other servers.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "proto/journal.pb.h"

namespace tributary {

// Sends copies of a server's state (weights and optimizer state) to other
// servers, and reads copies from them. Thread-safe.
class ReplicaNetwork {
 public:
  virtual ~ReplicaNetwork() = default;
  // Starts to accept copies of the state of the preceding server (the server
  // whose state this one replicates), in this attempt of the job.
  virtual void Serve(int64_t attempt) = 0;
  // Starts to let the workers of an all-reduce save their state on this server
  // and read it, in this attempt of the job.
  virtual void ServeWorkers(int64_t attempt) = 0;
  // Opens a stream that replicates this server's state to the server at
  // `address`. Does not block. If the stream breaks, calls `lost` with the
  // reason, at most once, on any thread.
  virtual std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) = 0;
  // Reads the copies of a shard that `request` describes from the server at
  // `address`. Blocks for a bounded time. Returns NotFound if that server does
  // not have these copies, FailedPrecondition if its copies are of a different
  // JournalScope (job, run, model and data), ResourceExhausted if too many
  // processes are reading them, Unavailable if the server cannot be reached,
  // and DataLoss if its answer is malformed.
  virtual absl::Status Fetch(const std::string& address,
                             const ReadJournalRequest& request,
                             const ReplicaTarget& to) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_
