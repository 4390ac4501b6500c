// Reads the files of a folder that other users may have written, such as the
// folder of a run in a directory that several users share.
#ifndef TRIBUTARY_COMMON_OS_UNTRUSTED_FOLDER_H_
#define TRIBUTARY_COMMON_OS_UNTRUSTED_FOLDER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tributary {

// A regular file that is open for reading. Reads may block on the disk, but on
// nothing else. Thread-safe.
class InputFile {
 public:
  // Takes ownership of `fd`. Returns FailedPrecondition, and closes `fd`, if it
  // is not a regular file. `path` names the file in errors.
  static absl::StatusOr<InputFile> Of(int fd, const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), facts_(other.facts_) {}
  InputFile& operator=(InputFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(facts_, other.facts_);
    return *this;
  }

  // What distinguishes one version of a file from another.
  struct Facts {
    ino_t inode = 0;
    int64_t bytes = 0;
    absl::Time modified = absl::InfinitePast();

    bool operator==(const Facts& other) const {
      return inode == other.inode && bytes == other.bytes &&
             modified == other.modified;
    }
    bool operator!=(const Facts& other) const { return !(*this == other); }
  };
  // Returns the facts at the time at which the file was opened.
  const Facts& facts() const { return facts_; }

  // Reads exactly `bytes` bytes at `offset`. Returns false if the file cannot
  // be read, or ends before.
  bool ReadAt(int64_t offset, int64_t bytes, char* to) const;
  // Returns up to `bytes` bytes from `offset`; fewer only at the end of the
  // file, or if it cannot be read.
  std::string Read(int64_t offset, int64_t bytes) const;

 private:
  InputFile(int fd, Facts facts) : fd_(fd), facts_(facts) {}

  int fd_;  // -1 after a move.
  Facts facts_;
};

// A folder whose contents may be hostile. Opens only regular files: never a
// symbolic link, which could lead to a file that its author cannot read, and
// never a FIFO or a device, which could block or act when it is opened. This
// also applies to the folders between this one and the file. Thread-safe.
// Methods may block on the disk.
//
// `name` is a path below the folder, such as "logs/server-0.log". A name with
// "..", or that begins with a slash, is refused with InvalidArgument.
class UntrustedFolder {
 public:
  // Opens files below `path`. The user has chosen `path`, so it may contain
  // symbolic links.
  explicit UntrustedFolder(std::string path) : chosen_(std::move(path)) {}
  // Returns a folder below this one. No part of `name` may be a symbolic link.
  UntrustedFolder Subfolder(absl::string_view name) const;

  // Returns the folder's path, without a slash at its end.
  std::string path() const;
  // Returns the path of a file in the folder, for messages.
  std::string PathOf(absl::string_view name) const;

  // Opens a file. Returns NotFound if it does not exist, FailedPrecondition if
  // it is not a regular file or if a symbolic link leads to it, and the
  // system's error if it cannot be opened.
  absl::StatusOr<InputFile> Open(absl::string_view name) const;
  // Returns the contents of a file. Returns OutOfRange if it is larger than
  // `max_bytes`, and the errors of Open.
  absl::StatusOr<std::string> Read(absl::string_view name,
                                   int64_t max_bytes) const;
  // Returns the last `max_bytes` bytes of a file, from the beginning of a line;
  // the whole file if it is not larger. Returns the errors of Open.
  absl::StatusOr<std::string> ReadEnd(absl::string_view name,
                                      int64_t max_bytes) const;
  // Returns the facts of a file without opening it, and the errors of Open.
  absl::StatusOr<InputFile::Facts> Look(absl::string_view name) const;

  // Return the names of the regular files and of the folders in this folder,
  // sorted; up to kMostNames of them. Symbolic links are left out. Empty if the
  // folder cannot be read.
  static constexpr size_t kMostNames = 1 << 16;
  std::vector<std::string> Files() const { return Names(/*folders=*/false); }
  std::vector<std::string> Folders() const { return Names(/*folders=*/true); }

 private:
  // Returns a descriptor of the folder that contains `name`, and sets `*last`
  // to the last part of `name`.
  absl::StatusOr<int> OpenFolderOf(absl::string_view name,
                                   std::string* last) const;
  std::vector<std::string> Names(bool folders) const;

  std::string chosen_;
  std::string below_;  // A path below chosen_; empty for chosen_ itself.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_UNTRUSTED_FOLDER_H_
