// An interface to the file operations of the system. Tests replace its
// implementation to make any operation fail and to discard data that was not
// synced.
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

// Returns "WHAT PATH: REASON" with the status code that corresponds to
// `error_number`, a value of errno.
absl::Status FileError(int error_number, absl::string_view what,
                       absl::string_view path);

// Returns the folder that contains `path`, which is "." if `path` has no slash.
std::string FolderOf(absl::string_view path);

// A new file that is written sequentially. Not thread-safe. Discard the file
// after any error: after a failed sync, the kernel treats the data as written,
// although it may not have reached the disk.
class WritableFile {
 public:
  // Closes the file unless Close was called.
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Writes the appended data to the disk. The name of the file is on the disk
  // only after FileSystem::SyncFolder.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// The file operations. They return the errors of FileError, which names the
// operation and the path. Thread-safe. All calls may block on the disk. What
// they change survives a power failure only after WritableFile::Sync and
// SyncFolder.
class FileSystem {
 public:
  // Returns the POSIX file system of this machine.
  static FileSystem* Posix();

  virtual ~FileSystem() = default;

  // Creates a file and opens it for writing. Returns AlreadyExists if `path`
  // exists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;
  // Renames a file or folder. Replaces `to` if it is a file or an empty folder.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Gives the file `from` the second name `to`. Returns AlreadyExists if `to`
  // exists, and the system's error on file systems that do not support it.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;
  // Atomically exchanges two files or folders. Returns Unimplemented if the
  // file system does not support it.
  virtual absl::Status Exchange(const std::string& a, const std::string& b) = 0;
  // Makes earlier creations, renames and removals in the folder durable.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Creates a folder, whose parent must exist. Returns OK if the folder exists
  // already.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Removes a file or an empty folder. Returns NotFound if `path` does not
  // exist.
  virtual absl::Status Remove(const std::string& path) = 0;
};

// Returns the names of all files and folders in the folder, sorted, without "."
// and "..". Returns NotFound if the folder does not exist, and the system's
// error if it cannot be read.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FILE_SYSTEM_H_
