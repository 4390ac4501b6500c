// A file that is read at any offset.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_FILE_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// An open regular file. Thread-safe. Errors are NotFound if the file does not
// exist, otherwise InvalidArgument, and begin with the path.
class PictureFile {
 public:
  static absl::StatusOr<std::unique_ptr<PictureFile>> Open(
      const std::string& path);
  PictureFile(const PictureFile&) = delete;
  PictureFile& operator=(const PictureFile&) = delete;
  ~PictureFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Replaces `bytes` by the `count` bytes at `offset`. It is an error if the
  // file ends before that.
  absl::Status Read(int64_t offset, int64_t count, std::string* bytes) const;

 private:
  PictureFile(std::string path, int descriptor, int64_t size);

  const std::string path_;
  const int descriptor_;
  const int64_t size_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_FILE_H_
