// The files of checkpoints with the rows of tables. proto/checkpoint.proto
// describes their format.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TABLE_FILES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TABLE_FILES_H_

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/file_system.h"
#include "common/sparse/sparse_table.h"
#include "common/update/tables/table_engine.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace tributary {

// Writes the contents of each table of the job to the file `name` in `folder`,
// and syncs the file. Returns the entry of the file in the manifest, or the
// system's error. Blocks.
absl::StatusOr<CheckpointFile> WriteTableFile(
    const std::vector<SparseTable::Contents>& tables, const std::string& name,
    const std::string& folder, FileSystem* file_system);

// A record of a file.
using TableRecord = std::variant<BucketRows, SparseTable::StepBefore>;

// Reads the records of the checkpoint in `folder`, whatever number of servers
// has written it, and calls visit(table, record) for each, until it returns an
// error. The records of second kind come last for each server, in the order of
// their ages. Verifies every byte with the digests in the manifest. Returns the
// error of `visit`; DataLoss, naming the file, for a damaged or missing file;
// and FailedPrecondition, naming the table, if the checkpoint's tables are not
// those of `sparse`.
absl::Status ReadTableFiles(
    const std::string& folder, const CheckpointManifest& manifest,
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
