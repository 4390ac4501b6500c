// Sequential reader for data files, plain or gzip-compressed.
#ifndef TRIBUTARY_WORKER_DATA_FILES_DATA_FILE_H_
#define TRIBUTARY_WORKER_DATA_FILES_DATA_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maximum size, in bytes, of a data file or a data set that is held in memory.
inline constexpr int64_t kMaxDataBytes = int64_t{64} << 30;

// Returns the error of a system call that has failed with errno `error`:
// NotFound if the file does not exist, otherwise InvalidArgument. The message
// is "PATH: cannot ACTION: REASON".
absl::Status DataFileError(absl::string_view path, absl::string_view action,
                           int error);

// Reads a regular file from start to end. If its path ends in `.gz`, the file
// is decompressed while it is read (RFC 1952, including multiple members), and
// its checksums are verified. Memory grows with the bytes actually read, never
// with the size that a header claims. Not thread-safe.
//
// Errors are NotFound if the file does not exist, ResourceExhausted if there is
// no memory for the decompressor, and InvalidArgument otherwise. Messages start
// with the path. For damaged data they cite the byte offset in the file on
// disk.
class DataFile {
 public:
  static absl::StatusOr<std::unique_ptr<DataFile>> Open(
      const std::string& path);
  virtual ~DataFile() = default;

  // Appends the next `count` bytes of the contents to `bytes`, or fewer if the
  // file ends before that. See the class comment for errors.
  absl::Status Read(int64_t count, std::string* bytes);

  const std::string& path() const { return path_; }
  // Returns an upper bound on the size of the contents, in bytes.
  int64_t size_bound() const { return size_bound_; }

 protected:
  DataFile(std::string path, int64_t size_bound);

 private:
  // Reads up to `count` bytes into `to`. Returns the number of bytes read,
  // which is 0 only at the end of the file.
  virtual absl::StatusOr<int64_t> ReadSome(char* to, int64_t count) = 0;

  const std::string path_;
  const int64_t size_bound_;
};

// Appends the contents of the file at `path`, decompressed, to `bytes`. Returns
// InvalidArgument if the file is empty or `bytes` would exceed `limit_bytes`,
// and the errors of DataFile.
absl::Status AppendWholeFile(const std::string& path, int64_t limit_bytes,
                             std::string* bytes);

// As AppendWholeFile, for a file of lines. Returns InvalidArgument, with the
// number of the line, as soon as a line of more than `line_bytes` bytes has
// been read, so a file of one endless line needs little memory.
absl::Status AppendLines(const std::string& path, int64_t limit_bytes,
                         int64_t line_bytes, std::string* bytes);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_DATA_FILE_H_
