// A server's files with rows, from checkpoint to checkpoint.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TABLE_CHAIN_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TABLE_CHAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/file_system.h"
#include "common/sparse/sparse_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/table_record_reader.h"

namespace tributary {

// Writes a server's files with rows into checkpoints. The first part has all
// rows, and each further part has the rows that a checkpoint found changed
// since the one before. A checkpoint contains all parts, as hard links, so it
// is complete by itself and costs as many bytes as rows have changed. The links
// begin in a folder next to the checkpoints, which the destructor removes, so
// the parts do not depend on whether a checkpoint is committed or kept.
//
// Not thread-safe. Blocks on the disk.
class TableChain {
 public:
  struct Options {
    SparseSpec sparse;  // Valid.
    int shard = 0;
    int servers = 1;
    // The checkpoint from which the tables were restored, if any. It must exist
    // until the first Write has returned.
    std::string checkpoint;
    std::optional<CheckpointManifest> manifest;
  };
  // `files` must outlive this object.
  TableChain(Options options, FileSystem* files)
      : options_(std::move(options)), files_(files) {}
  ~TableChain();
  TableChain(const TableChain&) = delete;
  TableChain& operator=(const TableChain&) = delete;

  // Adds a part with these changes of each table, those since the last call
  // that returned OK, and gives all parts names in `folder`, where a checkpoint
  // is being written. Returns their entries for its manifest, the system's
  // error, that of the changes, or DataLoss if an earlier part was found to be
  // damaged. Copies the files where the file system has no hard links.
  absl::StatusOr<std::vector<CheckpointFile>> Write(
      std::vector<SparseTable::Changes> changes, const std::string& folder);

  // Returns true if no part exists, so that the changes of the next Write must
  // be all rows.
  bool empty() const { return parts_.empty(); }
  // Merges the parts if they have more changes than rows, or if there are many.
  // So all merging writes at most about twice as many bytes as all parts. After
  // an error, the parts remain as they are; if one of them is damaged, the next
  // Write returns the error and drops them.
  void Merge();

 private:
  absl::StatusOr<CheckpointFile> MergeInto(const std::string& name) const;
  // Creates the folder of links next to the checkpoint in `folder`, and begins
  // with the parts of the checkpoint that the tables were restored from.
  absl::Status Begin(const std::string& folder);
  // Writes the rows that belong to this server and that another one has saved.
  absl::Status ImportFrom(int shard);
  std::string NewName();
  // Removes what earlier processes have left, also those of another number of
  // servers.
  void RemoveLeftovers();
  void RemoveLinks(const std::string& folder);
  // Gives a file a second name, or copies it.
  absl::Status LinkOrCopy(const std::string& from_folder,
                          const CheckpointFile& facts,
                          const std::string& to) const;

  Options options_;
  FileSystem* const files_;
  std::string folder_;  // Of the links. Empty before Begin.
  // Their names are those in folder_.
  std::vector<CheckpointFile> parts_;
  absl::Status damage_;  // Found by Merge.
  int64_t names_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_TABLE_CHAIN_H_
