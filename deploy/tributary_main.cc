// `tributary`, the one program: see commands.cc for what it can do.
#include <malloc.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "deploy/commands/commands.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"

namespace {

// gRPC takes and frees memory by the megabyte with every message. Pages that go
// back to the kernel in between have to be cleared and mapped again for the
// next one, which costs a fifth of the exchange's time on the wire.
void KeepFreedMemory() {
  constexpr int kLargestThreshold = 32 << 20;  // glibc accepts no more.
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

// Debian's Abseil looks for deadlocks at every lock that is taken, gRPC's own
// included: 2 % of the CPU time of an exchange on the wire. Tests leave it on.
void TrustLocks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  TrustLocks();
  tributary::EndProcess(
      tributary::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc),
                                tributary::ProcessEnvironment()));
}
