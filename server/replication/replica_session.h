// The receiving end of a stream that contains copies of a server's or worker's
// state.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSION_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSION_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/snapshot.h"
#include "common/stream/message_stream.h"
#include "proto/journal.pb.h"
#include "server/replication/replica_store.h"

namespace tributary {

// Adds the copies from the server whose state is replicated here, or from a
// worker of an all-reduce, to a ReplicaStore. Tells the sender how many copies
// and messages with rows of this stream are stored; one answer may acknowledge
// several.
class ReplicaSession final
    : public ServerSession<JournalMessage, JournalAnswer> {
 public:
  // `memory` and `stream` must outlive this object. An `attempt` of 0 means
  // that no attempt is served yet; the session then refuses the stream.
  ReplicaSession(int shard, int64_t attempt, ReplicaStore* memory,
                 ServerStream<JournalAnswer>* stream);

  void OnMessage(const JournalMessage& message,
                 ReceivedPayload payload) override;
  void OnEnd() override { stream_->Close(absl::OkStatus()); }
  void OnGone() override {}
  bool TakeMore(JournalAnswer* answer) override ABSL_LOCKS_EXCLUDED(kept_mu_);

 private:
  absl::Status Handle(const JournalMessage& message,
                      const ReceivedPayload& payload);
  absl::Status OnHello(const JournalHello& hello);
  absl::Status OnPart(const JournalPart& part, const ReceivedPayload& payload)
      ABSL_LOCKS_EXCLUDED(kept_mu_);
  absl::Status OnRows(const JournalRows& rows, const ReceivedPayload& payload)
      ABSL_LOCKS_EXCLUDED(kept_mu_);
  // Acknowledges what was stored.
  absl::Status Kept() ABSL_LOCKS_EXCLUDED(kept_mu_);

  const int shard_;
  const int64_t attempt_;
  ReplicaStore* const memory_;
  ServerStream<JournalAnswer>* const stream_;
  int from_ = -1;  // The sender's shard; -1 before JournalHello.
  std::unique_ptr<BufferPool> buffers_;
  int64_t version_ = 0;  // Version of the copy that is being received.
  Snapshot::Chunk copy_;

  absl::Mutex kept_mu_;
  int64_t kept_ ABSL_GUARDED_BY(kept_mu_) = 0;
  int64_t told_ ABSL_GUARDED_BY(kept_mu_) = 0;
};

// Returns the Unavailable error for a process whose replicas this server does
// not keep, or does not keep yet. A server keeps the replicas of servers, or in
// an all-reduce the replicas of workers.
absl::Status ReplicasNotServed();

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSION_H_
