// The client of a server's in-memory replicas (the journal): see
// proto/journal.proto.
#ifndef TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_
#define TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/transport/security.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/journal.pb.h"

namespace tributary {

// A stream to the server that keeps the in-memory replica of this server's
// state. Thread-safe.
class ReplicaStream {
 public:
  virtual ~ReplicaStream() = default;
  // Sends a copy and shares its buffers until it is acknowledged. Calls `kept`
  // once, on any thread and in the order of calls, when the replica holds the
  // copy; never if the stream breaks first.
  virtual void Send(int64_t version, const Snapshot::Chunk& copy,
                    std::function<void()> kept) = 0;
  // After this returns no callback runs and Send does nothing. Call before the
  // destructor.
  virtual void End() = 0;
};

// The role of the caller, which decides the methods that it may call.
enum class ReplicaPeer { kServer, kWorker };

// Opens a stream to the journal of the server at `address`. Returns
// immediately. Calls `lost` at most once, on any thread, if the stream breaks.
std::unique_ptr<ReplicaStream> OpenReplicaStream(
    const std::string& address, const Security& security, ReplicaPeer peer,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost);

// Reads a replica into the buffers of `*snapshot`, which must have all chunks
// of the request's shard. Blocks for minutes at most. Returns the server's
// error, or DataLoss if its response is malformed.
absl::Status ReadReplica(const std::string& address, const Security& security,
                         ReplicaPeer peer, const ReadJournalRequest& request,
                         Snapshot* snapshot);

// Encodes one array of a chunk without copying it. Array 0 holds the weights.
grpc::ByteBuffer EncodeReplicaPart(int64_t version,
                                   const Snapshot::Chunk& chunk, int array);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_
