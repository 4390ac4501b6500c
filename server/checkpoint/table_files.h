// Reads the rows of tables from checkpoints.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TABLE_FILES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TABLE_FILES_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/update/tables/table_engine.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/table_record_reader.h"

namespace tributary {

// Reads the rows in the checkpoint in `folder`, whatever number of servers has
// written it, and calls visit(table, record) with all rows of each bucket,
// until it returns an error. Records of earlier values come last for each
// server and table, in the order of their ages. Verifies every byte with the
// digests in the manifest. Returns the error of `visit`; DataLoss, naming the
// file, for a damaged or missing file; and FailedPrecondition, naming the
// table, if the checkpoint's tables are not those of `sparse`.
absl::Status ReadTableFiles(
    const std::string& folder, const CheckpointManifest& manifest,
    const SparseSpec& sparse,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit);

// Reads the records that server `shard` has written, like ReadTableFiles. The
// rows of a bucket come in ascending order of the buckets.
absl::Status ReadTableFilesOf(
    int shard, const std::string& folder, const CheckpointManifest& manifest,
    const SparseSpec& sparse,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit);

// Loads the tables' rows from a checkpoint; no effect if `tables` is null.
// Returns the errors of ReadTableFiles and SparseTable::Restore.
absl::Status RestoreTables(const std::string& folder,
                           const CheckpointManifest& manifest,
                           TableEngine* tables);

// Returns the job of a manifest, or an empty one if it cannot be parsed.
JobSpec JobOf(const CheckpointManifest& manifest);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_TABLE_FILES_H_
