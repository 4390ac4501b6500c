#include "tests/worker/device/cuda/emulation/emulated_libraries.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/worker/device/cuda/emulation/emulated_streams.h"

namespace emulated_gpu {

void Check(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "a library of the emulated GPU: %s\n", what);
  std::abort();
}

float RoundToTf32(float x) {
  constexpr uint32_t kLost = (1u << 13) - 1;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + kLost / 2 + ((bits >> 13) & 1)) & ~kLost;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

void EnqueueWork(Stream* stream, std::function<void()> work) {
  Enqueue(stream, [device = DeviceOf(stream), work = std::move(work)] {
    const Running running(device);
    work();
    return true;
  });
}

}  // namespace emulated_gpu
