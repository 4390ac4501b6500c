#include "server/records/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

// Returns the length of the file without an incomplete last line; -1 on an
// error.
off_t WholeLines(int fd) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) return -1;
  char bytes[4096];
  off_t end = facts.st_size;
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - off_t{sizeof(bytes)});
    const ssize_t count =
        pread(fd, bytes, static_cast<size_t>(end - begin), begin);
    if (count != end - begin) return -1;
    for (ssize_t i = count; i > 0; --i) {
      if (bytes[i - 1] == '\n') return begin + i;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

void LineFile::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status LineFile::Open(const std::string& path) {
  Close();
  path_ = path;
  fd_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
             0666);
  const off_t whole = fd_ < 0 ? -1 : WholeLines(fd_);
  if (whole < 0 || ftruncate(fd_, whole) != 0) {
    const absl::Status status = FileError(errno, "cannot write", path);
    Close();
    return status;
  }
  return absl::OkStatus();
}

absl::Status LineFile::Append(absl::string_view line) {
  struct stat before = {};
  if (fstat(fd_, &before) != 0) return FileError(errno, "cannot write", path_);
  const std::string text = absl::StrCat(line, "\n");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count =
        write(fd_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const absl::Status status = FileError(errno, "cannot write", path_);
      // If this fails, too, the next Open removes the incomplete line.
      if (written > 0 && ftruncate(fd_, before.st_size) != 0) return status;
      return status;
    }
    written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace tributary
