// Whole files, read and written so that a crash leaves the old one or the new
// one.
#ifndef TRIBUTARY_COMMON_FILE_H_
#define TRIBUTARY_COMMON_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/file_system.h"

namespace tributary {

// The contents of a file. OutOfRange if it has more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

// Makes `path` hold the pieces, one behind the other: writes a new file beside
// it, fsyncs, renames, and fsyncs the folder. When it returns OK the contents
// survive a power cut; on any error `path` is what it was before, and the new
// file is gone. The pieces are written from where they are, not copied. Blocks
// for as long as the disk takes.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileSystem* files = FileSystem::Posix());

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_FILE_H_
