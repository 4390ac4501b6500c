// Numbers that operations of devices read and write.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_REAL_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_REAL_H_

#include <cstdint>

#include "common/numerics/philox.h"

namespace tributary {

enum class Precision {
  kFloat32,
  kBfloat16,
  // Only for creating a device, which then reports kFloat32. A GPU may round
  // the operands of matrix products and convolutions to TF32 (10 fraction
  // bits).
  kTf32,
};

// An element of an activation, of an activation's gradient, or of the copy of a
// weight that matrix products read. It is a float32 or a bfloat16, according to
// Device::precision(). Results that are stored as bfloat16 are rounded to
// nearest, ties to even.
// Opaque: only devices and worker/device/reals.h access the representation.
struct Real;

// An offset that is added to the numbers of random streams. Each micro-batch of
// each step has an offset, and so streams, of its own, which
// Device::SetRandomBase selects. Operations that were captured in a CUDA graph,
// whose arguments are fixed, therefore draw different numbers each time.
struct RandomBase {
  uint32_t a = 0, b = 0;

  // Returns `stream` with this offset's a and b added to its fields a and b.
  // The function is constexpr, so that GPU code can call it.
  constexpr RandomStream Of(RandomStream stream) const {
    stream.a += a;
    stream.b += b;
    return stream;
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_REAL_H_
