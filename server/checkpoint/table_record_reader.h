// Files of checkpoints with the rows of tables. proto/checkpoint.proto
// describes their format.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TABLE_RECORD_READER_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TABLE_RECORD_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "common/sparse/sparse_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/digesting_file.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {

// How many numbers a row of a table has.
struct RowFloats {
  uint64_t values = 0;
  uint64_t state = 0;  // Of the table's rule.

  int64_t all() const { return static_cast<int64_t>(values + state); }
};
// Returns those of each table, or the errors of RowRule::Create.
absl::StatusOr<std::vector<RowFloats>> RowFloatsOf(const SparseSpec& sparse);

// A record of a file.
using TableRecord = std::variant<BucketRows, SparseTable::StepBefore>;

// Writes a file of records. Blocks on the disk.
class TableRecordWriter {
 public:
  // Creates the file `name` in `folder`.
  static absl::StatusOr<TableRecordWriter> Create(const std::string& folder,
                                                  const std::string& name,
                                                  FileSystem* file_system);

  // Writes a record. Its lists must be ascending, and records must come in the
  // order of TableRecordReader::Place.
  absl::Status Write(int table, const BucketRows& rows);
  absl::Status Write(int table, const SparseTable::StepBefore& before);
  // Syncs and closes the file, and returns its entry for a manifest.
  absl::StatusOr<CheckpointFile> Finish();

 private:
  explicit TableRecordWriter(std::unique_ptr<DigestingFile> file)
      : file_(std::move(file)) {}

  std::unique_ptr<DigestingFile> file_;
};

// Reads the records of a file, and verifies every byte. Blocks on the disk.
class TableRecordReader {
 public:
  // Where a record belongs: its table, whether it is a StepBefore, and its
  // bucket or its age. The records of a file are in ascending order.
  using Place = std::tuple<int, bool, int>;

  // `facts` is the file's entry of a manifest. Returns DataLoss, naming the
  // file, if it is missing or damaged.
  static absl::StatusOr<std::unique_ptr<TableRecordReader>> Open(
      const std::string& folder, const CheckpointFile& facts,
      std::vector<RowFloats> floats);

  // Returns the place of the next record; nothing at the end of the file.
  const std::optional<Place>& next() const { return next_; }
  // Reads the next record into `*record`. Returns DataLoss, naming the file and
  // the place, if it is damaged.
  absl::Status Read(TableRecord* record);

 private:
  TableRecordReader(std::unique_ptr<VerifiedFile> file, int64_t bytes,
                    std::vector<RowFloats> floats)
      : file_(std::move(file)), bytes_(bytes), floats_(std::move(floats)) {}

  absl::Status Damaged(absl::string_view what) const;
  absl::Status ReadBytes(int64_t count, void* to);
  // Reads `count` elements. Does not allocate memory for more than the file
  // has.
  template <typename T>
  absl::Status ReadAll(uint64_t count, std::vector<T>* to);
  absl::Status ReadHeader();
  absl::Status ReadRows(BucketRows* rows);
  absl::Status ReadBefore(SparseTable::StepBefore* before);

  const std::unique_ptr<VerifiedFile> file_;
  const int64_t bytes_;
  const std::vector<RowFloats> floats_;
  int64_t position_ = 0;
  std::optional<Place> next_;
  // Of the record at next_.
  uint64_t rows_ = 0;
  uint64_t candidates_ = 0;
  uint64_t removed_ = 0;
};

// Reads the parts of one server's tables, in their order: the rows, and what
// has changed since. Calls visit(table, record) with all rows of each bucket,
// and with the last part's records of earlier values, until it returns an
// error. Returns this error or those of TableRecordReader::Read.
absl::Status MergeParts(
    const std::vector<std::unique_ptr<TableRecordReader>>& parts,
    const std::vector<RowFloats>& floats,
    const std::function<absl::Status(int table, const TableRecord& record)>&
        visit);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_TABLE_RECORD_READER_H_
