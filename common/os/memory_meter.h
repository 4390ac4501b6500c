// Measures the memory that this process uses.
#ifndef TRIBUTARY_COMMON_OS_MEMORY_METER_H_
#define TRIBUTARY_COMMON_OS_MEMORY_METER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Remembers the largest ProportionalMemoryBytes, which it measures only when
// the resident memory has grown by a fiftieth: that takes long. Thread-safe.
class MemoryMeter {
 public:
  // Returns the largest value so far; 0 if unknown.
  int64_t Peak() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  int64_t measured_at_ ABSL_GUARDED_BY(mu_) = 0;  // Resident memory.
  int64_t peak_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_MEMORY_METER_H_
