// Reads a part of an open file.
#ifndef TRIBUTARY_COMMON_OS_READ_AT_H_
#define TRIBUTARY_COMMON_OS_READ_AT_H_

#include <cstdint>

namespace tributary {

// Reads `bytes` bytes at `offset` of the file with the descriptor `file` to
// `to`. Returns how many bytes it has read, which are fewer only if the file
// ends before; -1 after an error, whose number is then in errno. Thread-safe;
// the position of the descriptor does not change.
int64_t ReadAt(int file, int64_t offset, int64_t bytes, void* to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_READ_AT_H_
