// A file that is read at any offset.
#ifndef TRIBUTARY_WORKER_DATA_FILES_RANDOM_ACCESS_FILE_H_
#define TRIBUTARY_WORKER_DATA_FILES_RANDOM_ACCESS_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// An open regular file that can be read at any offset. Holds a file descriptor.
// Thread-safe. Errors are NotFound if the file does not exist, otherwise
// InvalidArgument, and begin with the path.
class RandomAccessFile {
 public:
  static absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(
      const std::string& path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  const std::string& path() const { return path_; }
  // Returns the size in bytes that the file had when it was opened.
  int64_t size() const { return size_; }
  // Replaces `bytes` by the `count` bytes at `offset`. Returns an error if the
  // file ends before that, for example because it has become shorter since it
  // was opened. Blocks on the file system.
  absl::Status Read(int64_t offset, int64_t count, std::string* bytes) const;

 private:
  RandomAccessFile(std::string path, int descriptor, int64_t size);

  const std::string path_;
  const int descriptor_;
  const int64_t size_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_RANDOM_ACCESS_FILE_H_
