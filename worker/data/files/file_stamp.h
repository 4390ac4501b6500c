// Numbers by which changed files are recognized.
#ifndef TRIBUTARY_WORKER_DATA_FILES_FILE_STAMP_H_
#define TRIBUTARY_WORKER_DATA_FILES_FILE_STAMP_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace tributary {

// Returns a number that differs after the file was written or replaced: a hash
// of the path, and of the file's device, inode, size and times of the last
// change of contents and of inode. Not equal on two machines. Returns nullopt
// if there is no such file.
absl::optional<uint64_t> FileStamp(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_FILE_STAMP_H_
