// CPU device in bfloat16, for any processor.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_CPU_DEVICE_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_CPU_DEVICE_H_

#include <memory>

#include "worker/device/device.h"

namespace tributary {

// Creates a device that stores bfloat16 and computes in float32, using the
// operations of `float32`, a CPU device of that precision.
std::unique_ptr<Device> CreateBfloat16CpuDevice(
    std::unique_ptr<Device> float32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_CPU_DEVICE_H_
