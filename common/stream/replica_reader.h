// Reads in-memory replicas, which are copies of the state of a process in the
// memory of a server; see proto/journal.proto, which calls them journals.
#ifndef TRIBUTARY_COMMON_STREAM_REPLICA_READER_H_
#define TRIBUTARY_COMMON_STREAM_REPLICA_READER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/snapshot.h"
#include "common/sparse/server/server_tables.h"
#include "common/stream/message_stream.h"
#include "proto/journal.pb.h"

namespace tributary {

// The call that carries the copies to the reader.
using ReplicaReadStream = ClientStream<JournalMessage, ReadJournalRequest>;

// Where a replica is written to.
struct ReplicaTarget {
  // Contains all chunks that are requested, to whose buffers it is written.
  Snapshot* snapshot = nullptr;
  // Empty tables of the shard at the version of the replica. No tables are read
  // if there are none here.
  ServerTables tables;
};

// Starts `stream`, and reads the replica that `request` describes. Sets
// ReadJournalRequest::tables if `to` has tables. Blocks until the call has
// ended. Returns DataLoss if a copy is missing, out of order or of the wrong
// size, or if rows are malformed. If the call fails, returns the call's error.
// `address` is the address of the server that keeps the replica; it is used
// only in the message of an error.
absl::Status ReceiveReplica(std::unique_ptr<ReplicaReadStream> stream,
                            const std::string& address,
                            const ReadJournalRequest& request,
                            const ReplicaTarget& to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_REPLICA_READER_H_
