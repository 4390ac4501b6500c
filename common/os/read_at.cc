#include "common/os/read_at.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace tributary {

int64_t ReadAt(int file, int64_t offset, int64_t bytes, void* to) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(file, static_cast<char*>(to) + done,
                              static_cast<size_t>(bytes - done),
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace tributary
