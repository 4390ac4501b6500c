// Whole files, read and written so that a crash leaves the old one or the new
// one.
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

// The contents of a file. OutOfRange if it has more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

// Makes `path` hold the pieces, one behind the other: writes a new file beside
// it, fsyncs, renames, and fsyncs the folder. When it returns OK the contents
// survive a power cut. On an error `path` is what it was before, or, if only
// the folder could not be synced, already the new contents; the new file is
// gone, if the disk lets it be removed. The pieces are written from where they
// are, not copied. Blocks for as long as the disk takes.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileSystem* files = FileSystem::Posix());

// What is being written goes by another name until it is whole: NAME.tmp- and
// 16 random hex digits. `IsUnfinished`: `name` is such a name of `whole`, both
// without folder. Where nobody is writing a crash has left it.
std::string UnfinishedName(absl::string_view whole);
bool IsUnfinished(absl::string_view name, absl::string_view whole);

// 16 random hex digits.
std::string RandomSuffix();

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FILE_H_
