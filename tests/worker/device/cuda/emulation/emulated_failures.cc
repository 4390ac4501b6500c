#include "tests/worker/device/cuda/emulation/emulated_failures.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace emulated_gpu {
namespace {

// By kind: the calls that succeed before the one that fails; -1: none fails.
std::array<std::atomic<int64_t>, 5>& CallsBeforeFailure() {
  static std::array<std::atomic<int64_t>, 5> calls = {-1, -1, -1, -1, -1};
  return calls;
}

}  // namespace

void FailNext(Failing kind, int64_t calls) {
  CallsBeforeFailure()[static_cast<size_t>(kind)] = calls;
}

void StopFailing() {
  for (std::atomic<int64_t>& calls : CallsBeforeFailure()) calls = -1;
}

bool Fails(Failing kind) {
  std::atomic<int64_t>& calls = CallsBeforeFailure()[static_cast<size_t>(kind)];
  int64_t now = calls;
  while (now >= 0) {
    if (calls.compare_exchange_weak(now, now - 1)) return now == 0;
  }
  return false;
}

}  // namespace emulated_gpu
