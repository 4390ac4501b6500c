#include "tests/worker/device/cuda/emulation/emulated_failures.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace emulated_gpu {
namespace {

// By kind: the calls that succeed before the one that fails; -1: none fails.
std::array<std::atomic<int64_t>, 5>& CallsBeforeFailure() {
  static std::array<std::atomic<int64_t>, 5> calls = {-1, -1, -1, -1, -1};
  return calls;
}

// Lets a test make another process fail: at its first call, reads the file that
// $EMULATED_GPU_FAILURE names, such as "product 5" or "allocation 0", and
// removes it. FailNext is called with these arguments.
void FailAsFileAsks() {
  static const bool asked = [] {
    const char* const path = std::getenv("EMULATED_GPU_FAILURE");
    std::ifstream file(path == nullptr ? "" : path);
    std::string kind;
    int64_t calls = 0;
    if (!(file >> kind >> calls)) return false;
    std::remove(path);
    FailNext(kind == "allocation" ? Failing::kAllocation : Failing::kProduct,
             calls);
    return true;
  }();
  static_cast<void>(asked);
}

}  // namespace

void FailNext(Failing kind, int64_t calls) {
  CallsBeforeFailure()[static_cast<size_t>(kind)] = calls;
}

void StopFailing() {
  for (std::atomic<int64_t>& calls : CallsBeforeFailure()) calls = -1;
}

bool Fails(Failing kind) {
  FailAsFileAsks();
  std::atomic<int64_t>& calls = CallsBeforeFailure()[static_cast<size_t>(kind)];
  int64_t now = calls;
  while (now >= 0) {
    if (calls.compare_exchange_weak(now, now - 1)) return now == 0;
  }
  return false;
}

}  // namespace emulated_gpu
