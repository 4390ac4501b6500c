// Measures what this process uses of its machine.
#ifndef TRIBUTARY_COMMON_METRICS_PROCESS_METER_H_
#define TRIBUTARY_COMMON_METRICS_PROCESS_METER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Thread-safe.
class ProcessMeter {
 public:
  // Sets the fields of the process's memory and CPU time.
  void Fill(ProcessStatistics* statistics) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Returns the largest ProportionalMemoryBytes so far. Measures only when the
  // resident memory has grown by a fiftieth, because that takes long.
  int64_t ProportionalMemory(int64_t resident) const ABSL_LOCKS_EXCLUDED(mu_);

  mutable absl::Mutex mu_;
  mutable int64_t measured_at_ ABSL_GUARDED_BY(mu_) = 0;  // Resident memory.
  mutable int64_t peak_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_PROCESS_METER_H_
