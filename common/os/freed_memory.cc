#include "common/os/freed_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <limits>

#include "absl/strings/match.h"

namespace tributary {

void KeepFreedMemory() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (absl::StartsWith(*variable, "MALLOC_") ||
        absl::StartsWith(*variable, "GLIBC_TUNABLES=")) {
      return;
    }
  }
  // The largest value that glibc accepts.
  constexpr int kLargestThreshold = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace tributary
