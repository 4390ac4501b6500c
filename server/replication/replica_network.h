// How a server gets at the journals of the others.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/transport/replica_client.h"
#include "proto/journal.pb.h"

namespace tributary {

// Thread-safe.
class ReplicaNetwork {
 public:
  virtual ~ReplicaNetwork() = default;
  // Lets the server before this one replicate into this one's journal, in this
  // attempt of the job.
  virtual void Serve(int64_t attempt) = 0;
  // Lets the workers of an all-reduce bring their state here, and read it.
  virtual void ServeWorkers(int64_t attempt) = 0;
  // Returns at once. `lost` is called, at most once, on any thread, if the
  // stream breaks.
  virtual std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) = 0;
  // Fills the buffers of `*snapshot`, which has all chunks. Waits, within
  // bounds.
  virtual absl::Status Fetch(const std::string& address,
                             const ReadJournalRequest& request,
                             Snapshot* snapshot) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_NETWORK_H_
