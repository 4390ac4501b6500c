// The sending end of a stream of copies to a server's in-memory replicas (the
// journal): see proto/journal.proto.
#ifndef TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_
#define TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/stream/message_stream.h"
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

using JournalStream = ClientStream<JournalAnswer, JournalMessage>;

// Starts `stream` and sends `hello`. Returns immediately. Calls `lost` at most
// once, on any thread, if the stream breaks. `address` appears in its status.
std::unique_ptr<ReplicaStream> StartReplicaStream(
    std::unique_ptr<JournalStream> stream, const std::string& address,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost);

// One array of a chunk as a message. Array 0 holds the weights. The payload
// refers to the chunk's buffers.
struct ReplicaPart {
  ReplicaPart(int64_t version, const Snapshot::Chunk& chunk, int array);

  JournalMessage message;
  OutgoingPayload payload;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_
