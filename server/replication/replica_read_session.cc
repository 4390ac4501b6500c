#include "server/replication/replica_read_session.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/parameters/chunk_ranges.h"
#include "common/stream/replica_stream.h"
#include "server/replication/replica_session.h"

namespace tributary {

ReplicaReadSession::ReplicaReadSession(const ReplicaStore* memory,
                                       std::shared_ptr<ReplicaReads> reads,
                                       ServerStream<JournalMessage>* stream)
    : memory_(memory),
      reads_(std::move(reads)),
      stream_(stream),
      admitted_(++reads_->open <= reads_->most) {}

ReplicaReadSession::~ReplicaReadSession() { --reads_->open; }

void ReplicaReadSession::OnMessage(const ReadJournalRequest& request,
                                   ReceivedPayload) {
  const absl::Status status = Prepare(request);
  if (status.ok()) {
    SendNext();
  } else {
    stream_->Close(status);
  }
}

absl::Status ReplicaReadSession::Prepare(const ReadJournalRequest& request) {
  if (!admitted_) {
    return absl::ResourceExhaustedError(
        "too many processes are reading these replicas; try again");
  }
  if (memory_ == nullptr) return ReplicasNotServed();
  TRIBUTARY_RETURN_IF_ERROR(memory_->CheckScope(request.scope()));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ChunkRanges requested,
      ChunkRanges::Create(request.chunk(), std::numeric_limits<int>::max()));
  TRIBUTARY_ASSIGN_OR_RETURN(snapshot_,
                             memory_->Find(request.shard(), request.version()));
  std::vector<Snapshot::Chunk>& chunks = snapshot_.chunks;
  chunks.erase(std::remove_if(chunks.begin(), chunks.end(),
                              [&requested](const Snapshot::Chunk& chunk) {
                                return !requested.Contains(chunk.number);
                              }),
               chunks.end());
  if (!request.tables()) return absl::OkStatus();
  const TableReplicas& replicas = memory_->tables();
  TRIBUTARY_ASSIGN_OR_RETURN(ServerTables tables,
                             replicas.Find(request.shard(), request.version()));
  tables_.emplace(std::move(tables), request.version(), replicas.fixed_lag());
  return absl::OkStatus();
}

void ReplicaReadSession::SendNext() {
  if (chunk_ == snapshot_.chunks.size()) return SendRows();
  const Snapshot::Chunk& chunk = snapshot_.chunks[chunk_];
  ReplicaPart part(snapshot_.version, chunk, array_);
  if (++array_ > static_cast<int>(chunk.slots.size())) {
    array_ = 0;
    ++chunk_;
  }
  // The stream may call OnSent on another thread before Send has returned.
  stream_->Send(part.message, std::move(part.payload), /*priority=*/0);
}

void ReplicaReadSession::SendRows() {
  if (rows_.empty() && tables_.has_value()) {
    absl::StatusOr<std::vector<ReplicaRows>> next = tables_->Next();
    if (!next.ok()) return stream_->Close(next.status());
    rows_.assign(std::make_move_iterator(next->begin()),
                 std::make_move_iterator(next->end()));
  }
  if (rows_.empty()) return stream_->Close(absl::OkStatus());
  ReplicaRows part = std::move(rows_.front());
  rows_.pop_front();
  JournalMessage message;
  *message.mutable_rows() = std::move(part.rows);
  stream_->Send(message, std::move(part.payload), /*priority=*/0);
}

}  // namespace tributary
