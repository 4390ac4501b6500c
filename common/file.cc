#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

// Linux moves at most 2 GiB in one call.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status WriteAll(int file, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written =
        write(file, bytes.data(), std::min(bytes.size(), kMaxTransferBytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      return FileError(errno, "cannot write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Creates a file beside `path` that nobody else has; its name goes to `name`.
absl::StatusOr<int> CreateBeside(const std::string& path, std::string* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = absl::StrCat(path, ".tmp-", getpid(), "-", attempt);
    const int file =
        open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return file;
    if (errno != EEXIST) return FileError(errno, "cannot create", *name);
  }
  return FileError(EEXIST, "cannot create", *name);
}

// After a failed fsync the file's pages count as clean although they never
// reached the disk: the file is given up, not synced again.
absl::Status WriteAndClose(int file, const std::string& path,
                           absl::Span<const absl::string_view> pieces) {
  absl::Status status;
  for (const absl::string_view piece : pieces) {
    if (status.ok()) status = WriteAll(file, piece, path);
  }
  if (status.ok() && fsync(file) != 0) {
    status = FileError(errno, "cannot sync", path);
  }
  if (close(file) != 0 && status.ok()) {
    status = FileError(errno, "cannot close", path);
  }
  return status;
}

absl::Status SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return FileError(errno, "cannot open", path);
  const int result = fsync(folder);
  const int error = errno;
  close(folder);
  // Some network file systems cannot sync a folder, and need not.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    return FileError(error, "cannot sync", path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(int error_number, absl::string_view what,
                       absl::string_view path) {
  return absl::ErrnoToStatus(error_number, absl::StrCat(what, " ", path));
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(errno, "cannot open", path);
  const absl::Cleanup closer = [file] { close(file); };
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count == 0) return contents;
    if (count < 0) {
      if (errno == EINTR) continue;
      return FileError(errno, "cannot read", path);
    }
    contents.append(buffer, static_cast<size_t>(count));
    if (contents.size() > static_cast<uint64_t>(max_bytes)) {
      return absl::OutOfRangeError(
          absl::StrCat(path, ": larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  std::string temporary;
  TRIBUTARY_ASSIGN_OR_RETURN(const int file, CreateBeside(path, &temporary));
  absl::Status status = WriteAndClose(file, temporary, pieces);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileError(errno, absl::StrCat("cannot rename ", temporary, " to"),
                       path);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(FolderOf(path));
}

}  // namespace tributary
