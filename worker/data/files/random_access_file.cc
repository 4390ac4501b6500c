#include "worker/data/files/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/os/read_at.h"
#include "worker/data/files/data_file.h"

namespace tributary {
RandomAccessFile::RandomAccessFile(std::string path, int descriptor,
                                   int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

RandomAccessFile::~RandomAccessFile() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<RandomAccessFile>> RandomAccessFile::Open(
    const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return DataFileError(path, "open", errno);
  struct stat information;
  if (fstat(descriptor, &information) != 0) {
    const absl::Status status = DataFileError(path, "examine", errno);
    close(descriptor);
    return status;
  }
  if (!S_ISREG(information.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file"));
  }
  return std::unique_ptr<RandomAccessFile>(
      new RandomAccessFile(path, descriptor, information.st_size));
}

absl::Status RandomAccessFile::Read(int64_t offset, int64_t count,
                                    std::string* bytes) const {
  // Checked before memory is allocated.
  if (offset < 0 || count < 0 || offset > size_ || count > size_ - offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": byte ", offset, ": the file ends at byte ", size_,
        ", before the ", count, " bytes that are expected here"));
  }
  bytes->resize(static_cast<size_t>(count));
  const int64_t got = ReadAt(descriptor_, offset, count, &(*bytes)[0]);
  if (got == count) return absl::OkStatus();
  if (got < 0) return DataFileError(path_, "read", errno);
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": has become shorter since it was opened: byte ",
                   offset + got, " of ", size_,
                   " does not exist any more; data files must not change "
                   "while a job runs"));
}

}  // namespace tributary
