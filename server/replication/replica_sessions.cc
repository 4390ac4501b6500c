#include "server/replication/replica_sessions.h"

#include "server/replication/replica_session.h"

namespace tributary {

std::unique_ptr<ReplicaSessions::KeepSession> ReplicaSessions::Replicate(
    ServerStream<JournalAnswer>* stream) {
  return std::make_unique<ReplicaSession>(shard_, attempt_, memory_, stream);
}

std::unique_ptr<ReplicaSessions::ReadSession> ReplicaSessions::ReadJournal(
    ServerStream<JournalMessage>* stream) {
  return std::make_unique<ReplicaReadSession>(memory_, reads_, stream);
}

std::unique_ptr<ReplicaSessions::KeepSession> ReplicaSessions::SaveState(
    ServerStream<JournalAnswer>* stream) {
  return std::make_unique<ReplicaSession>(shard_, workers_attempt_, memory_,
                                          stream);
}

std::unique_ptr<ReplicaSessions::ReadSession> ReplicaSessions::ReadState(
    ServerStream<JournalMessage>* stream) {
  // A null store refuses the call.
  return std::make_unique<ReplicaReadSession>(
      workers_attempt_ == 0 ? nullptr : memory_, worker_reads_, stream);
}

}  // namespace tributary
