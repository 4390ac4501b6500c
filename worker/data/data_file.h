// Sequential reading of data files, plain or gzip-compressed.
#ifndef TRIBUTARY_WORKER_DATA_DATA_FILE_H_
#define TRIBUTARY_WORKER_DATA_DATA_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// More than this in one data set is refused: it is held in memory.
inline constexpr int64_t kMaxDataBytes = int64_t{64} << 30;

// A regular file opened for reading from its begin to its end. A path that ends
// in `.gz` is inflated while it is read (RFC 1952, also several members), and
// its checksums are verified. Memory grows with the bytes that are really
// there, never with what a header claims. Not thread-safe.
//
// Errors are NotFound (no such file) or InvalidArgument, and start with the
// path; damage is located by its byte offset in the file on disk.
class DataFile {
 public:
  static absl::StatusOr<std::unique_ptr<DataFile>> Open(
      const std::string& path);
  virtual ~DataFile() = default;

  // Appends the next `count` bytes to `bytes`; fewer only at the file's end.
  absl::Status Read(int64_t count, std::string* bytes);

  const std::string& path() const { return path_; }
  // No more bytes than this can come out of the file.
  int64_t size_bound() const { return size_bound_; }

 protected:
  DataFile(std::string path, int64_t size_bound);

 private:
  // Fills up to `count` bytes at `to`; returns how many, 0 only at the end.
  virtual absl::StatusOr<int64_t> ReadSome(char* to, int64_t count) = 0;

  const std::string path_;
  const int64_t size_bound_;
};

// Appends all of the file to `bytes`. InvalidArgument if it is empty or if
// `bytes` would become longer than `limit_bytes`.
absl::Status AppendWholeFile(const std::string& path, int64_t limit_bytes,
                             std::string* bytes);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_DATA_FILE_H_
