// The file operations of the system behind an interface. Tests replace it to
// make any operation fail and to discard data that was not synced.
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

// Returns "WHAT PATH: REASON" with the status code for `error_number`, a value
// of errno.
absl::Status FileError(int error_number, absl::string_view what,
                       absl::string_view path);

// Returns the folder that contains `path`.
std::string FolderOf(absl::string_view path);

// A new file that is written sequentially. Not thread-safe. Discard the file
// after any error: after a failed sync the kernel marks pages as clean that
// never reached the disk.
class WritableFile {
 public:
  // Closes the file unless Close was called.
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // After OK the appended data is on the disk. The file's name is on the disk
  // only after FileSystem::SyncFolder.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Errors name the operation and the path. Thread-safe. Calls block for as long
// as the disk takes.
class FileSystem {
 public:
  // Returns the POSIX file system of this machine.
  static FileSystem* Posix();

  virtual ~FileSystem() = default;

  // Returns AlreadyExists if `path` exists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;
  // Replaces `to` if it is a file or an empty folder.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Atomically exchanges two files or folders. Returns Unimplemented if the
  // file system does not support it.
  virtual absl::Status Exchange(const std::string& a, const std::string& b) = 0;
  // Makes earlier creations, renames and removals in the folder durable.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // The parent folder must exist. Returns OK if the folder exists already.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Removes a file or an empty folder. Returns NotFound if `path` does not
  // exist.
  virtual absl::Status Remove(const std::string& path) = 0;
};

// Returns the sorted names in the folder, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FILE_SYSTEM_H_
