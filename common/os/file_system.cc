#include "common/os/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Linux transfers at most 2 GiB per call.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;
// The disk begins to write a file whenever so many bytes have been appended.
// Fewer would cost calls, and more would leave the disk idle at first.
constexpr int64_t kWriteBehindBytes = int64_t{8} << 20;

class PosixFile final : public WritableFile {
 public:
  PosixFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  ~PosixFile() override {
    if (file_ >= 0) close(file_);
  }

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          write(file_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes));
      if (written < 0) {
        if (errno == EINTR) continue;
        return FileError(errno, "cannot write", path_);
      }
      bytes.remove_prefix(static_cast<size_t>(written));
      written_ += written;
    }
    if (written_ - begun_ >= kWriteBehindBytes) {
      // Only begins to write: the disk works while the caller makes the next
      // bytes. Sync reports errors, and file systems that do not know this call
      // write when they choose to.
      (void)sync_file_range(file_, begun_, written_ - begun_,
                            SYNC_FILE_RANGE_WRITE);
      begun_ = written_;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return fsync(file_) == 0 ? absl::OkStatus()
                             : FileError(errno, "cannot sync", path_);
  }

  absl::Status Close() override {
    return close(std::exchange(file_, -1)) == 0
               ? absl::OkStatus()
               : FileError(errno, "cannot close", path_);
  }

 private:
  int file_;
  const std::string path_;
  int64_t written_ = 0;
  int64_t begun_ = 0;  // What the disk was told to write.
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return FileError(errno, "cannot create", path);
    return std::make_unique<PosixFile>(file, path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0
               ? absl::OkStatus()
               : FileError(errno, absl::StrCat("cannot rename ", from, " to"),
                           to);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    return link(from.c_str(), to.c_str()) == 0
               ? absl::OkStatus()
               : FileError(errno, absl::StrCat("cannot link ", from, " to"),
                           to);
  }

  absl::Status Exchange(const std::string& a, const std::string& b) override {
    if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) ==
        0) {
      return absl::OkStatus();
    }
    const int error = errno;
    // File systems that do not know the flag return EINVAL.
    return FileError(error == EINVAL ? ENOSYS : error,
                     absl::StrCat("cannot exchange ", a, " and"), b);
  }

  absl::Status SyncFolder(const std::string& path) override {
    const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return FileError(errno, "cannot open", path);
    const int result = fsync(folder);
    const int error = errno;
    close(folder);
    // Some network file systems cannot sync a folder and do not need it.
    if (result != 0 && error != EINVAL && error != ENOTSUP) {
      return FileError(error, "cannot sync", path);
    }
    return absl::OkStatus();
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat facts;
    if (error == EEXIST && stat(path.c_str(), &facts) == 0 &&
        S_ISDIR(facts.st_mode)) {
      return absl::OkStatus();
    }
    return FileError(error, "cannot create folder", path);
  }

  absl::Status Remove(const std::string& path) override {
    return remove(path.c_str()) == 0 ? absl::OkStatus()
                                     : FileError(errno, "cannot remove", path);
  }
};

}  // namespace

absl::Status FileError(int error_number, absl::string_view what,
                       absl::string_view path) {
  return absl::ErrnoToStatus(error_number, absl::StrCat(what, " ", path));
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

FileSystem* FileSystem::Posix() {
  static PosixFileSystem* const posix = new PosixFileSystem();
  return posix;
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) return FileError(errno, "cannot open folder", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(folder);
  if (error != 0) return FileError(error, "cannot read folder", path);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tributary
