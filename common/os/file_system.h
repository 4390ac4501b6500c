// The calls by which files come to be, behind an interface, so that tests can
// make every one of them fail and take back what was not synced.
#ifndef TRIBUTARY_COMMON_OS_FILE_SYSTEM_H_
#define TRIBUTARY_COMMON_OS_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// "what path: reason" with the code that fits `error_number` (of errno).
absl::Status FileError(int error_number, absl::string_view what,
                       absl::string_view path);

// The folder that holds `path`.
std::string FolderOf(absl::string_view path);

// A new file, written from its start to its end. One thread at a time. After
// any error the file is of no use and must be given up: after a failed sync the
// system counts pages as written that never reached the disk.
class WritableFile {
 public:
  // Closes the file if Close was not called.
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // What was appended is on the disk when this returns OK; the file's name is
  // not, see FileSystem::SyncFolder.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Errors name the call and the path. Thread-safe; calls block for as long as
// the disk takes.
class FileSystem {
 public:
  // The machine's own.
  static FileSystem* Posix();

  virtual ~FileSystem() = default;

  // AlreadyExists if there is something of that name.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;
  // Replaces a file, or an empty folder, of the new name.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Makes each of two names, of files or folders, name what the other did, at
  // once. Unimplemented where the file system cannot.
  virtual absl::Status Exchange(const std::string& a, const std::string& b) = 0;
  // Makes names that were created, renamed and removed in the folder last.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // The folders above it must be there; OK if the folder itself is.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // A file, or an empty folder. NotFound if there is none.
  virtual absl::Status Remove(const std::string& path) = 0;
};

// Names in the folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FILE_SYSTEM_H_
