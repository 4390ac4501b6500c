// For LD_PRELOAD: says on stderr that the process runs its exit handlers.
#include <unistd.h>

#include <cstdlib>

namespace {

constexpr char kSeen[] = "exit handlers run\n";

void Report() {
  if (write(STDERR_FILENO, kSeen, sizeof(kSeen) - 1) < 0) std::abort();
}

__attribute__((constructor)) void Watch() { std::atexit(&Report); }

}  // namespace
