// Reads and atomically replaces whole files.
#ifndef TRIBUTARY_COMMON_OS_FILE_H_
#define TRIBUTARY_COMMON_OS_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/os/file_system.h"

namespace tributary {

// Returns true if there is a file or a folder `path`. Returns false if the file
// system cannot tell.
bool PathExists(const std::string& path);
// Return true if `path` is a folder or a regular file. A symbolic link is what
// it leads to.
bool IsFolder(const std::string& path);
bool IsFile(const std::string& path);

// Returns the contents of a file. Returns NotFound if the file does not exist,
// InvalidArgument if it is larger than `max_bytes`, and the system's error if
// it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

// Replaces the contents of `path` with the concatenation of `pieces`: writes a
// new file in the same folder, syncs it, renames it to `path` and syncs the
// folder. If OK is returned, the new contents survive a power failure. On an
// error, `path` has its old contents, or its new contents if only the folder
// could not be synced; a new file that was not renamed is removed if possible.
// Does not copy the pieces into one buffer. Blocks until the disk has written
// the file.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileSystem* files = FileSystem::Posix());

// UnfinishedName returns a temporary name for the file `whole` while it is
// being written: `whole`, ".tmp-" and 16 random hex digits. IsUnfinished
// returns true if `name` is such a temporary name for `whole`; both are file
// names without a folder. A crash of the writer leaves the temporary file
// behind.
std::string UnfinishedName(absl::string_view whole);
bool IsUnfinished(absl::string_view name, absl::string_view whole);

// Returns 16 random hex digits.
std::string RandomSuffix();

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FILE_H_
