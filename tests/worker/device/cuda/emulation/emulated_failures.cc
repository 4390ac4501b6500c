#include "tests/worker/device/cuda/emulation/emulated_failures.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/base/call_once.h"

namespace emulated_gpu {
namespace {

// By kind: the calls that succeed before the one that fails; -1: none fails.
std::array<std::atomic<int64_t>, 7>& CallsBeforeFailure() {
  static std::array<std::atomic<int64_t>, 7> calls = {-1, -1, -1, -1,
                                                      -1, -1, -1};
  return calls;
}

Failing KindOf(const std::string& name) {
  if (name == "allocation") return Failing::kAllocation;
  if (name == "mapping") return Failing::kMapping;
  return Failing::kProduct;
}

// Lets a test make another process fail: at its first call of each kind, reads
// the file that $EMULATED_GPU_FAILURE names, such as "product 5", "mapping 0"
// or "allocation 0". The first process that makes such a call removes the file,
// and calls FailNext with these arguments.
void FailAsFileAsks(Failing kind) {
  static std::array<absl::once_flag, 7> asked;
  absl::call_once(asked[static_cast<size_t>(kind)], [kind] {
    const char* const path = std::getenv("EMULATED_GPU_FAILURE");
    std::ifstream file(path == nullptr ? "" : path);
    std::string name;
    int64_t calls = 0;
    if (file >> name >> calls && KindOf(name) == kind &&
        std::remove(path) == 0) {
      FailNext(kind, calls);
    }
  });
}

}  // namespace

void FailNext(Failing kind, int64_t calls) {
  CallsBeforeFailure()[static_cast<size_t>(kind)] = calls;
}

void StopFailing() {
  for (std::atomic<int64_t>& calls : CallsBeforeFailure()) calls = -1;
}

bool Fails(Failing kind) {
  FailAsFileAsks(kind);
  std::atomic<int64_t>& calls = CallsBeforeFailure()[static_cast<size_t>(kind)];
  int64_t now = calls;
  while (now >= 0) {
    if (calls.compare_exchange_weak(now, now - 1)) return now == 0;
  }
  return false;
}

}  // namespace emulated_gpu
