// The sending end of a call that reads an in-memory replica.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_READ_SESSION_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_READ_SESSION_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/stream/message_stream.h"
#include "common/stream/replica_rows.h"
#include "proto/journal.pb.h"
#include "server/replication/replica_store.h"

namespace tributary {

// The number of open reads of replicas, and the largest number that is allowed,
// because each open read holds a snapshot in memory. The sessions share it.
struct ReplicaReads {
  explicit ReplicaReads(int most_reads) : most(most_reads) {}

  const int most;
  std::atomic<int> open{0};
};

// Largest number of open reads by servers: one read, and an earlier one whose
// end was not noticed yet.
inline constexpr int kMostReadsByServers = 2;

// Sends the copies of the requested chunks of one shard at one version, in the
// order of chunks and arrays, and then the rows of its tables. Keeps only one
// message in the stream's queue, and copies the rows of one bucket at a time.
class ReplicaReadSession final
    : public ServerSession<ReadJournalRequest, JournalMessage> {
 public:
  // A null `memory` refuses the call. `memory` and `stream` must outlive this
  // object.
  ReplicaReadSession(const ReplicaStore* memory,
                     std::shared_ptr<ReplicaReads> reads,
                     ServerStream<JournalMessage>* stream);
  ~ReplicaReadSession() override;

  void OnMessage(const ReadJournalRequest& request,
                 ReceivedPayload payload) override;
  void OnEnd() override {}
  void OnGone() override {}
  void OnSent() override { SendNext(); }

 private:
  absl::Status Prepare(const ReadJournalRequest& request);
  // Sends the next array or rows, or closes the call after the last ones.
  void SendNext();
  void SendRows();

  const ReplicaStore* const memory_;
  const std::shared_ptr<ReplicaReads> reads_;
  ServerStream<JournalMessage>* const stream_;
  // Whether this read is one of those that are allowed.
  const bool admitted_;
  // The copies, and the next array to send.
  Snapshot snapshot_;
  size_t chunk_ = 0;
  int array_ = 0;
  // The rows, if they were requested, and those that are copied.
  std::optional<WholeTables> tables_;
  std::deque<ReplicaRows> rows_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_READ_SESSION_H_
