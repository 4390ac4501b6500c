#include "common/os/memory_meter.h"

#include <algorithm>

#include "common/os/process.h"

namespace tributary {

int64_t MemoryMeter::Peak() {
  const int64_t resident = MemoryBytes();
  absl::MutexLock lock(&mu_);
  if (resident > measured_at_ + measured_at_ / 50) {
    measured_at_ = resident;
    peak_ = std::max(peak_, ProportionalMemoryBytes());
  }
  return peak_;
}

}  // namespace tributary
