#include "common/os/untrusted_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"
#include "common/os/read_at.h"

namespace tributary {
namespace {

constexpr char kRefused[] =
    ", which Tributary does not open in a folder that others may have written; "
    "replace it by the file itself";

absl::Status CheckKind(const struct stat& status, const std::string& path) {
  if (S_ISREG(status.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      S_ISLNK(status.st_mode)   ? " is a symbolic link"
      : S_ISDIR(status.st_mode) ? " is a folder"
                                : " is a FIFO, a socket or a device",
      kRefused));
}

InputFile::Facts FactsOf(const struct stat& status) {
  return {status.st_ino, static_cast<int64_t>(status.st_size),
          absl::TimeFromTimespec(status.st_mtim)};
}

absl::Status OpenError(int error, const std::string& path) {
  // A component that is a link or no folder, or a link that has just replaced
  // the file.
  if (error == ENOTDIR || error == ELOOP) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is reached through a symbolic link", kRefused));
  }
  return FileError(error, "cannot open", path);
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Of(int fd, const std::string& path) {
  struct stat status = {};
  InputFile file(fd, Facts());
  if (fstat(fd, &status) != 0) return FileError(errno, "cannot read", path);
  TRIBUTARY_RETURN_IF_ERROR(CheckKind(status, path));
  file.facts_ = FactsOf(status);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

bool InputFile::ReadAt(int64_t offset, int64_t bytes, char* to) const {
  return tributary::ReadAt(fd_, offset, bytes, to) == bytes;
}

std::string InputFile::Read(int64_t offset, int64_t bytes) const {
  std::string text(bytes, '\0');
  text.resize(
      std::max<int64_t>(0, tributary::ReadAt(fd_, offset, bytes, text.data())));
  return text;
}

UntrustedFolder UntrustedFolder::Subfolder(absl::string_view name) const {
  UntrustedFolder result = *this;
  result.below_ =
      below_.empty() ? std::string(name) : absl::StrCat(below_, "/", name);
  return result;
}

std::string UntrustedFolder::path() const {
  absl::string_view folder = chosen_;
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  if (below_.empty()) return std::string(folder);
  return absl::StrCat(folder, folder == "/" ? "" : "/", below_);
}

std::string UntrustedFolder::PathOf(absl::string_view name) const {
  const std::string folder = path();
  return absl::StrCat(folder, folder == "/" ? "" : "/", name);
}

absl::StatusOr<int> UntrustedFolder::OpenFolderOf(absl::string_view name,
                                                  std::string* last) const {
  std::vector<std::string> parts = absl::StrSplit(name, '/');
  if (!below_.empty()) {
    const std::vector<std::string> folders = absl::StrSplit(below_, '/');
    parts.insert(parts.begin(), folders.begin(), folders.end());
  }
  for (const std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat(PathOf(name), " is not a path within ", path()));
    }
  }
  *last = parts.back();
  parts.pop_back();
  int folder = open(chosen_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return FileError(errno, "cannot open", chosen_);
  for (size_t i = 0; folder >= 0 && i < parts.size(); ++i) {
    const int next = openat(folder, parts[i].c_str(),
                            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    close(folder);
    errno = error;
    folder = next;
  }
  if (folder < 0) return OpenError(errno, PathOf(name));
  return folder;
}

absl::StatusOr<InputFile::Facts> UntrustedFolder::Look(
    absl::string_view name) const {
  std::string last;
  TRIBUTARY_ASSIGN_OR_RETURN(const int folder, OpenFolderOf(name, &last));
  const absl::Cleanup closer = [folder] { close(folder); };
  struct stat status = {};
  if (fstatat(folder, last.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return OpenError(errno, PathOf(name));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckKind(status, PathOf(name)));
  return FactsOf(status);
}

absl::StatusOr<InputFile> UntrustedFolder::Open(absl::string_view name) const {
  std::string last;
  TRIBUTARY_ASSIGN_OR_RETURN(const int folder, OpenFolderOf(name, &last));
  const absl::Cleanup closer = [folder] { close(folder); };
  const std::string path = PathOf(name);
  struct stat status = {};
  // Opening a device, or a FIFO to which somebody writes, has effects.
  if (fstatat(folder, last.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return OpenError(errno, path);
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckKind(status, path));
  // The file may have been replaced since.
  const int fd =
      openat(folder, last.c_str(),
             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return OpenError(errno, path);
  return InputFile::Of(fd, path);
}

absl::StatusOr<std::string> UntrustedFolder::Read(absl::string_view name,
                                                  int64_t max_bytes) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const InputFile file, Open(name));
  std::string text;
  if (file.facts().bytes <= max_bytes) {
    // One byte more shows whether the file has grown beyond the limit.
    text = file.Read(0, std::min(max_bytes, file.facts().bytes + 4096) + 1);
    if (static_cast<int64_t>(text.size()) <= max_bytes) return text;
  }
  return absl::OutOfRangeError(
      absl::StrCat(PathOf(name), ": larger than ", max_bytes, " bytes"));
}

absl::StatusOr<std::string> UntrustedFolder::ReadEnd(absl::string_view name,
                                                     int64_t max_bytes) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const InputFile file, Open(name));
  const int64_t begin = std::max<int64_t>(0, file.facts().bytes - max_bytes);
  std::string text = file.Read(begin, std::min(max_bytes, file.facts().bytes));
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

std::vector<std::string> UntrustedFolder::Names(bool folders) const {
  std::vector<std::string> names;
  std::string last;
  // Any name leads to this folder, which contains it.
  const absl::StatusOr<int> place = OpenFolderOf("x", &last);
  if (!place.ok()) return names;
  const int fd = openat(*place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  close(*place);
  if (fd < 0) return names;
  DIR* const stream = fdopendir(fd);
  if (stream == nullptr) {
    close(fd);
    return names;
  }
  const absl::Cleanup closer = [stream] { closedir(stream); };
  while (const dirent* const entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    unsigned char kind = entry->d_type;
    struct stat status = {};
    if (kind == DT_UNKNOWN &&
        fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      kind = S_ISDIR(status.st_mode)   ? DT_DIR
             : S_ISREG(status.st_mode) ? DT_REG
                                       : DT_UNKNOWN;
    }
    if (kind == (folders ? DT_DIR : DT_REG)) names.push_back(name);
    if (names.size() == kMostNames) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tributary
