// `tributary`, the one program: see commands.cc for what it can do.
#include <malloc.h>

#include <limits>
#include <string>
#include <vector>

#include "deploy/commands.h"
#include "deploy/environment.h"

namespace {

// gRPC takes and frees memory by the megabyte with every message. Pages that go
// back to the kernel in between have to be cleared and mapped again for the
// next one, which costs a fifth of the exchange's time on the wire.
void KeepFreedMemory() {
  constexpr int kLargestThreshold = 32 << 20;  // glibc accepts no more.
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  return tributary::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc),
      tributary::ProcessEnvironment());
}
