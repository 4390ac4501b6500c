// Rows of a table on a disk.
#ifndef TRIBUTARY_COMMON_SPARSE_ROW_LOG_H_
#define TRIBUTARY_COMMON_SPARSE_ROW_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sparse/row_layout.h"

namespace tributary {

// A file to which rows are appended and from which they are read in batches. It
// consists of segments of 4 MiB, which are written at once; the newest one is
// in memory. The segment of removed rows is used again. The file has no name,
// so it disappears with its process. Each row has a checksum.
//
// Reads may run at the same time; all other calls run alone.
class RowLog {
 public:
  static constexpr int64_t kSegmentBytes = int64_t{4} << 20;

  // Creates the file in `folder`, for rows of `row_bytes`, a multiple of 8.
  // Returns the system's error, naming the folder.
  static absl::StatusOr<std::unique_ptr<RowLog>> Create(
      const std::string& folder, int64_t row_bytes,
      int64_t segment_bytes = kSegmentBytes);
  ~RowLog();
  RowLog(const RowLog&) = delete;
  RowLog& operator=(const RowLog&) = delete;

  // Adds a copy of a row, and returns its position. Returns the system's error,
  // naming the folder, if a segment cannot be written.
  absl::StatusOr<uint32_t> Append(const RowHeader& row);
  // Counts a row as removed.
  void Remove(uint32_t position);

  // Calls visit(i, row) for each position, in any order. The row is valid
  // during the call. Returns DataLoss, naming the folder, for a row that is
  // damaged, and the system's error.
  absl::Status Read(
      absl::Span<const uint32_t> positions,
      const std::function<void(int64_t i, const RowHeader& row)>& visit) const;

  // Compaction: if there is a segment that should be emptied, reads all its
  // rows and calls visit(position, row), which appends the rows that are not
  // removed again, and removes them here. Call it after each step: it does
  // nothing until as many rows were removed as it copies, so that it takes a
  // bounded part of the disk's time, and the file at most about twice the bytes
  // of its rows.
  absl::Status Compact(const std::function<absl::Status(
                           uint32_t position, const RowHeader& row)>& visit);

  int64_t rows() const { return rows_; }
  // Returns the size of the file.
  int64_t bytes() const;

 private:
  RowLog(int file, std::string folder, int64_t row_bytes,
         int64_t segment_bytes);

  struct Segment {
    int64_t rows = 0;  // Not removed.
    bool free = false;
  };

  absl::Status BeginSegment();
  absl::Status ReadAt(int64_t offset, int64_t bytes, char* to) const;
  // Reads a row if this needs no access to the disk.
  bool ReadIfCached(int64_t offset, char* to) const;
  absl::Status Check(const RowHeader& row) const;
  uint32_t Checksum(const RowHeader& row) const;
  const char* InMemory(uint32_t position) const;
  void Free(int64_t segment);

  const int file_;
  const std::string folder_;
  const int64_t row_bytes_;
  const int64_t segment_rows_;
  std::vector<Segment> segments_;
  std::vector<int64_t> free_;
  int64_t newest_ = -1;  // The segment in memory.
  std::unique_ptr<char[]> memory_;
  int64_t used_ = 0;  // Rows in memory.
  int64_t rows_ = 0;
  int64_t removed_ = 0;  // Since the last compaction.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_LOG_H_
