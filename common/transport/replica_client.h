// How a process gets at the journal of a server: see proto/journal.proto.
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

// To the server that keeps copies of this one's state. Thread-safe.
class ReplicaStream {
 public:
  virtual ~ReplicaStream() = default;
  // Sends a copy, whose buffers are shared until then. `kept` is called once,
  // on any thread, when it is there, in the order of calls; never if the stream
  // breaks first.
  virtual void Send(int64_t version, const Snapshot::Chunk& copy,
                    std::function<void()> kept) = 0;
  // Nothing is called any more when this returns, and Send does nothing. To be
  // called before the destructor.
  virtual void End() = 0;
};

// Which of the journal's methods a process may use.
enum class ReplicaPeer { kServer, kWorker };

// To the journal of the server at `address`. Returns at once. `lost` is called,
// at most once, on any thread, if the stream breaks.
std::unique_ptr<ReplicaStream> OpenReplicaStream(
    const std::string& address, const Security& security, ReplicaPeer peer,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost);

// Fills the buffers of `*snapshot`, which has all chunks of the request's
// shard. Waits, for minutes at most. The server's error, or DataLoss for what
// it should not have sent.
absl::Status ReadReplica(const std::string& address, const Security& security,
                         ReplicaPeer peer, const ReadJournalRequest& request,
                         Snapshot* snapshot);

// The message with one array of a chunk; shares its memory. Array 0: the
// weights.
grpc::ByteBuffer EncodeReplicaPart(int64_t version,
                                   const Snapshot::Chunk& chunk, int array);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_
