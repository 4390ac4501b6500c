// Sends copies of the state of a process to the server that keeps its in-memory
// replica; see proto/journal.proto, which calls the replica a journal.
#ifndef TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_
#define TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/stream/message_stream.h"
#include "common/stream/replica_rows.h"
#include "proto/journal.pb.h"

namespace tributary {

// A stream on which a server, or a worker of an all-reduce, copies its state to
// the server that keeps the in-memory replica. Thread-safe.
class ReplicaStream {
 public:
  virtual ~ReplicaStream() = default;
  // Sends a copy of a chunk at `version`, and keeps references to its buffers
  // until the copy is acknowledged. Calls `kept` once, on any thread, when the
  // replica holds the copy, in the order of the Send calls. Does not call
  // `kept` if the stream breaks first.
  virtual void Send(int64_t version, const Snapshot::Chunk& copy,
                    std::function<void()> kept) = 0;
  // Sends a message with rows. Calls `kept`, unless it is null, as above.
  virtual void Send(ReplicaRows part, std::function<void()> kept) = 0;
  // Ends the stream. After End has returned, no callback runs and Send does
  // nothing. Must be called before the destructor.
  virtual void End() = 0;
};

// The call that carries the copies.
using ReplicationClientStream = ClientStream<JournalAnswer, JournalMessage>;

// Starts `stream` and sends `hello` as its first message. Returns immediately.
// Calls `lost` at most once, on any thread, if the stream breaks. `address` is
// the address of the server that keeps the in-memory replica. It is used only
// in the message of the status that `lost` receives.
std::unique_ptr<ReplicaStream> StartReplicaStream(
    std::unique_ptr<ReplicationClientStream> stream, const std::string& address,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost);

// A message with one array of a chunk. Array 0 holds the weights, and array i +
// 1 holds slot i of the optimizer's state. The payload refers to the buffers of
// the chunk.
struct ReplicaPart {
  ReplicaPart(int64_t version, const Snapshot::Chunk& chunk, int array);

  JournalMessage message;
  OutgoingPayload payload;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_REPLICA_STREAM_H_
