#include "worker/device/reals.h"

#include <cstddef>
#include <vector>

#include "common/numerics/half.h"

namespace tributary {

const Real* RealAt(const Device& device, const Real* x, int64_t index) {
  return reinterpret_cast<const Real*>(reinterpret_cast<const char*>(x) +
                                       index * device.real_bytes());
}

void CopyRealsToHost(Device* device, const Real* from, int64_t count,
                     float* to) {
  const auto bytes = static_cast<size_t>(count * device->real_bytes());
  if (device->precision() == Precision::kFloat32) {
    device->CopyToHost(to, from, bytes);
    return;
  }
  std::vector<char> halves(bytes);
  device->CopyToHost(halves.data(), from, bytes);
  DecodeHalf(ExchangeSpec::BFLOAT16, halves.data(), to, count);
}

}  // namespace tributary
