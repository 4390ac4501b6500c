// A server's sessions with the processes whose state it keeps as in-memory
// replicas, over any transport.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSIONS_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/limits.h"
#include "common/stream/message_stream.h"
#include "proto/journal.pb.h"
#include "server/replication/replica_read_session.h"
#include "server/replication/replica_store.h"

namespace tributary {

// Makes the sessions of the calls of proto/journal.proto in one attempt; the
// transport connects them to streams. Must outlive the sessions. Thread-safe.
class ReplicaSessions {
 public:
  using KeepSession = ServerSession<JournalMessage, JournalAnswer>;
  using ReadSession = ServerSession<ReadJournalRequest, JournalMessage>;

  // `shard` is this server's. `memory` must outlive this object.
  ReplicaSessions(int shard, ReplicaStore* memory)
      : shard_(shard), memory_(memory) {}
  ReplicaSessions(const ReplicaSessions&) = delete;
  ReplicaSessions& operator=(const ReplicaSessions&) = delete;

  // See the methods of the same names of ReplicaNetwork.
  void Serve(int64_t attempt) { attempt_ = attempt; }
  void ServeWorkers(int64_t attempt) { workers_attempt_ = attempt; }

  // Return the session of one call: of a server that sends copies or reads
  // them, and of a worker of an all-reduce that does. `stream` must outlive the
  // session.
  std::unique_ptr<KeepSession> Replicate(ServerStream<JournalAnswer>* stream);
  std::unique_ptr<ReadSession> ReadJournal(
      ServerStream<JournalMessage>* stream);
  std::unique_ptr<KeepSession> SaveState(ServerStream<JournalAnswer>* stream);
  std::unique_ptr<ReadSession> ReadState(ServerStream<JournalMessage>* stream);

 private:
  const int shard_;
  ReplicaStore* const memory_;
  // The open calls of servers, and of workers, that read replicas.
  const std::shared_ptr<ReplicaReads> reads_ =
      std::make_shared<ReplicaReads>(kMostReadsByServers);
  const std::shared_ptr<ReplicaReads> worker_reads_ =
      std::make_shared<ReplicaReads>(kDefaultLimits.workers);
  // The numbers of the attempts in which servers (attempt_) and workers
  // (workers_attempt_) may store and read replicas; 0 if they may not yet.
  std::atomic<int64_t> attempt_{0};
  std::atomic<int64_t> workers_attempt_{0};
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_SESSIONS_H_
