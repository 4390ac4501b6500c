#include "common/sparse/row_log.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"
#include "common/os/read_at.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<RowLog>> RowLog::Create(
    const std::string& folder, int64_t row_bytes, int64_t segment_bytes) {
  // Not every file system has O_TMPFILE.
  std::string path = absl::StrCat(folder, "/tributary-rows-XXXXXX");
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) {
    return FileError(errno, "cannot create a file for rows of tables in",
                     folder);
  }
  unlink(path.c_str());
  return std::unique_ptr<RowLog>(
      new RowLog(file, folder, row_bytes, segment_bytes));
}

RowLog::RowLog(int file, std::string folder, int64_t row_bytes,
               int64_t segment_bytes)
    : file_(file),
      folder_(std::move(folder)),
      row_bytes_(row_bytes),
      segment_rows_(std::max<int64_t>(1, segment_bytes / row_bytes)),
      memory_(std::make_unique<char[]>(segment_rows_ * row_bytes)),
      used_(segment_rows_) {}

RowLog::~RowLog() { close(file_); }

int64_t RowLog::bytes() const {
  return static_cast<int64_t>(segments_.size() - free_.size()) * segment_rows_ *
         row_bytes_;
}

uint32_t RowLog::Checksum(const RowHeader& row) const {
  RowHeader header = row;
  header.checksum = 0;
  const uint64_t seed = XXH3_64bits(&header, sizeof(header));
  return static_cast<uint32_t>(
      XXH3_64bits_withSeed(&row + 1, row_bytes_ - sizeof(header), seed));
}

absl::Status RowLog::Check(const RowHeader& row) const {
  if (row.checksum == Checksum(row)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      folder_, ": the disk returns other rows of tables than were written"));
}

const char* RowLog::InMemory(uint32_t position) const {
  return position / segment_rows_ == newest_
             ? memory_.get() + position % segment_rows_ * row_bytes_
             : nullptr;
}

absl::Status RowLog::BeginSegment() {
  const int64_t bytes = segment_rows_ * row_bytes_;
  for (int64_t at = 0; newest_ >= 0 && at < bytes;) {
    const ssize_t written =
        pwrite(file_, memory_.get() + at, bytes - at, newest_ * bytes + at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return FileError(written < 0 ? errno : EIO,
                       "cannot write rows of tables in", folder_);
    }
    at += written;
  }
  const int64_t full = newest_;
  if (free_.empty()) {
    if ((static_cast<int64_t>(segments_.size()) + 1) * segment_rows_ >=
        int64_t{0xffffffff}) {
      return absl::ResourceExhaustedError(
          absl::StrCat(folder_,
                       ": a table has too many rows on this server's disk; use "
                       "more servers"));
    }
    newest_ = static_cast<int64_t>(segments_.size());
    segments_.emplace_back();
  } else {
    newest_ = free_.back();
    free_.pop_back();
    segments_[newest_].free = false;
  }
  used_ = 0;
  if (full >= 0 && segments_[full].rows == 0) Free(full);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> RowLog::Append(const RowHeader& row) {
  if (used_ == segment_rows_) TRIBUTARY_RETURN_IF_ERROR(BeginSegment());
  auto* const copy =
      reinterpret_cast<RowHeader*>(memory_.get() + used_ * row_bytes_);
  std::memcpy(static_cast<void*>(copy), &row, row_bytes_);
  copy->checksum = Checksum(*copy);
  ++segments_[newest_].rows;
  ++rows_;
  return static_cast<uint32_t>(newest_ * segment_rows_ + used_++);
}

void RowLog::Remove(uint32_t position) {
  const int64_t segment = position / segment_rows_;
  --rows_;
  ++removed_;
  if (--segments_[segment].rows == 0 && segment != newest_) Free(segment);
}

void RowLog::Free(int64_t segment) {
  segments_[segment].free = true;
  free_.push_back(segment);
  // The space may be of use to others. Not every file system can do it.
  const int64_t bytes = segment_rows_ * row_bytes_;
  (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  segment * bytes, bytes);
}

absl::Status RowLog::ReadAt(int64_t offset, int64_t bytes, char* to) const {
  const int64_t read = tributary::ReadAt(file_, offset, bytes, to);
  if (read == bytes) return absl::OkStatus();
  return FileError(read < 0 ? errno : EIO, "cannot read rows of tables in",
                   folder_);
}

absl::Status RowLog::Read(
    absl::Span<const uint32_t> positions,
    const std::function<void(int64_t i, const RowHeader& row)>& visit) const {
  std::vector<int64_t> order(positions.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [positions](int64_t a, int64_t b) {
    return positions[a] < positions[b];
  });
  std::vector<int64_t> awaited;
  const auto row = std::make_unique<char[]>(row_bytes_);
  const auto use = [&](int64_t i, const char* bytes) {
    const auto& header = *reinterpret_cast<const RowHeader*>(bytes);
    TRIBUTARY_RETURN_IF_ERROR(Check(header));
    visit(i, header);
    return absl::OkStatus();
  };
  for (const int64_t i : order) {
    const char* bytes = InMemory(positions[i]);
    const int64_t offset = positions[i] * row_bytes_;
    if (bytes == nullptr && ReadIfCached(offset, row.get())) bytes = row.get();
    if (bytes != nullptr) {
      TRIBUTARY_RETURN_IF_ERROR(use(i, bytes));
      continue;
    }
    // The disk works on all rows at the same time.
    (void)posix_fadvise(file_, offset, row_bytes_, POSIX_FADV_WILLNEED);
    awaited.push_back(i);
  }
  for (const int64_t i : awaited) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadAt(positions[i] * row_bytes_, row_bytes_, row.get()));
    TRIBUTARY_RETURN_IF_ERROR(use(i, row.get()));
  }
  return absl::OkStatus();
}

bool RowLog::ReadIfCached(int64_t offset, char* to) const {
  const iovec part = {to, static_cast<size_t>(row_bytes_)};
  // Not every file system supports it; then rows are read like others.
  return preadv2(file_, &part, 1, offset, RWF_NOWAIT) == row_bytes_;
}

absl::Status RowLog::Compact(
    const std::function<absl::Status(uint32_t position, const RowHeader& row)>&
        visit) {
  if (2 * removed_ < segment_rows_) return absl::OkStatus();
  int64_t emptiest = -1;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const auto segment = static_cast<int64_t>(i);
    if (segments_[i].free || segment == newest_ ||
        2 * segments_[i].rows > segment_rows_) {
      continue;
    }
    if (emptiest < 0 || segments_[i].rows < segments_[emptiest].rows) {
      emptiest = segment;
    }
  }
  if (emptiest < 0) {
    removed_ = 0;
    return absl::OkStatus();
  }
  const int64_t removed = removed_ - segment_rows_ / 2;
  const int64_t bytes = segment_rows_ * row_bytes_;
  const auto rows = std::make_unique<char[]>(bytes);
  TRIBUTARY_RETURN_IF_ERROR(ReadAt(emptiest * bytes, bytes, rows.get()));
  for (int64_t i = 0; i < segment_rows_; ++i) {
    const auto& row =
        *reinterpret_cast<const RowHeader*>(rows.get() + i * row_bytes_);
    TRIBUTARY_RETURN_IF_ERROR(Check(row));
    TRIBUTARY_RETURN_IF_ERROR(
        visit(static_cast<uint32_t>(emptiest * segment_rows_ + i), row));
  }
  // Moved rows do not count.
  removed_ = removed;
  return absl::OkStatus();
}

}  // namespace tributary
