// The messages with rows of tables in in-memory replicas: JournalRows of
// proto/journal.proto.
#ifndef TRIBUTARY_COMMON_STREAM_REPLICA_ROWS_H_
#define TRIBUTARY_COMMON_STREAM_REPLICA_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/server/server_tables.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "proto/journal.pb.h"

namespace tributary {

// A message and its payload.
struct ReplicaRows {
  JournalRows rows;
  OutgoingPayload payload;
};

// Returns the messages with what a step has changed in each table, which led to
// `version`: the SparseTable::LastStep of each.
std::vector<ReplicaRows> PackStepRows(int64_t version,
                                      const ServerTables& tables,
                                      const std::vector<BucketRows>& changes);

// The messages with all rows of a server's tables, which do not change until
// they are read. Not thread-safe.
class WholeTables {
 public:
  // Reads the tables at `version`, and what the rows were before the last
  // `earlier_steps` steps.
  WholeTables(ServerTables tables, int64_t version, int earlier_steps)
      : tables_(std::move(tables)),
        version_(version),
        earlier_steps_(earlier_steps) {}

  // Returns the messages of the next bucket, or of the earlier steps of the
  // next table; none at the end. Takes the time to copy these rows, also from a
  // disk. Returns the errors of SparseTable::ReadBucket.
  absl::StatusOr<std::vector<ReplicaRows>> Next();

 private:
  const ServerTables tables_;
  const int64_t version_;
  const int earlier_steps_;
  size_t table_ = 0;
  size_t bucket_ = 0;
  bool ended_ = false;
};

// Puts received rows into tables. Not thread-safe.
class ReplicaRowsReader {
 public:
  // Fills tables that are empty, at a version whose rows come with
  // JournalRows::whole, or changes tables that have rows already.
  explicit ReplicaRowsReader(ServerTables tables)
      : tables_(std::move(tables)) {}

  const ServerTables& tables() const { return tables_; }
  // Takes the next message. Returns InvalidArgument or FailedPrecondition,
  // naming what is wrong, for a message that no correct server sends, and the
  // errors of SparseTable::Replay and Restore. After an error, the tables are
  // not usable.
  absl::Status Take(const JournalRows& rows, const ReceivedPayload& payload);
  // Returns true if the last message was the last one of its version.
  bool complete() const { return complete_; }

 private:
  absl::Status TakeWhole(const JournalRows& rows,
                         const ReceivedPayload& payload);
  absl::Status TakeStep(const JournalRows& rows,
                        const ReceivedPayload& payload);

  const ServerTables tables_;
  bool complete_ = true;
  // Whether the version that is being received is whole.
  bool whole_ = false;
  // The changes of the step that is being received, of each table.
  std::vector<BucketRows> step_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_REPLICA_ROWS_H_
