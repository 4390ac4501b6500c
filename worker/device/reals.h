// Access to numbers of type Real (float32 or bfloat16; see ops/real.h) outside
// of devices.
#ifndef TRIBUTARY_WORKER_DEVICE_REALS_H_
#define TRIBUTARY_WORKER_DEVICE_REALS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device.h"

namespace tributary {

// Cast pointers to floats to pointers to Real. The floats must be in the memory
// of a device with Precision::kFloat32.
inline const Real* AsReals(const float* numbers) {
  return reinterpret_cast<const Real*>(numbers);
}
inline Real* AsReals(float* numbers) {
  return reinterpret_cast<Real*>(numbers);
}

// Return `numbers` as floats. The numbers must belong to a device that works in
// host memory with Precision::kFloat32; see LayerSpec::host_floats.
inline const float* HostFloats(const Real* numbers) {
  return reinterpret_cast<const float*>(numbers);
}
inline float* HostFloats(Real* numbers) {
  return reinterpret_cast<float*>(numbers);
}

// Returns a pointer to the element at `index` of `x`, which is in the memory of
// `device`.
const Real* RealAt(const Device& device, const Real* x, int64_t index);

// Copies `count` numbers from `from`, in the memory of `device`, to `to`, in
// host memory, and converts them to float32. Blocks until the copy is complete.
// Returns the errors of Device::CopyToHost.
absl::Status CopyRealsToHost(Device* device, const Real* from, int64_t count,
                             float* to);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_REALS_H_
