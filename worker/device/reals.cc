#include "worker/device/reals.h"

#include <cstddef>
#include <vector>

#include "common/numerics/half.h"

namespace tributary {

const Real* RealAt(const Device& device, const Real* x, int64_t index) {
  return reinterpret_cast<const Real*>(reinterpret_cast<const char*>(x) +
                                       index * device.real_bytes());
}

absl::Status CopyRealsToHost(Device* device, const Real* from, int64_t count,
                             float* to) {
  const auto bytes = static_cast<size_t>(count * device->real_bytes());
  if (device->precision() == Precision::kFloat32) {
    return device->CopyToHost(to, from, bytes);
  }
  std::vector<char> halves(bytes);
  const absl::Status status = device->CopyToHost(halves.data(), from, bytes);
  if (status.ok()) DecodeHalf(ExchangeSpec::BFLOAT16, halves.data(), to, count);
  return status;
}

}  // namespace tributary
