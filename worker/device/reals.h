// How numbers of type Real lie in memory, as far as it matters outside of
// devices.
#ifndef TRIBUTARY_WORKER_DEVICE_REALS_H_
#define TRIBUTARY_WORKER_DEVICE_REALS_H_

#include <cstdint>

#include "worker/device/device.h"

namespace tributary {

// Numbers of a device of Precision::kFloat32, in its memory.
inline const Real* AsReals(const float* numbers) {
  return reinterpret_cast<const Real*>(numbers);
}
inline Real* AsReals(float* numbers) {
  return reinterpret_cast<Real*>(numbers);
}

// The element number `index` of x.
const Real* RealAt(const Device& device, const Real* x, int64_t index);

// Copies `count` numbers to the host, as float32. Waits.
void CopyRealsToHost(Device* device, const Real* from, int64_t count,
                     float* to);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_REALS_H_
