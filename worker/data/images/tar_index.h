// Lists the members of tar archives.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_TAR_INDEX_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_TAR_INDEX_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// A regular file in an archive.
struct TarMember {
  std::string name;
  int64_t offset = 0;  // Of its contents in the archive, in bytes.
  int64_t size = 0;    // In bytes.
};

// Replaces `bytes` by the `count` bytes at `offset` of an archive.
using TarReader = std::function<absl::Status(int64_t offset, int64_t count,
                                             std::string* bytes)>;

// Lists the regular files of an uncompressed tar archive of `size` bytes, in
// the archive's order, by reading only its headers. Supports the formats of
// POSIX (ustar, pax) and GNU, including long names and sizes in base 256.
// Folders and other members are left out. The list ends at a block of zeros or
// at the end of the archive.
//
// Returns the reader's errors, and InvalidArgument for malformed archives; the
// message begins with `name` and the offset.
absl::StatusOr<std::vector<TarMember>> IndexTar(const TarReader& read,
                                                int64_t size,
                                                absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_TAR_INDEX_H_
