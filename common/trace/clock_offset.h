// Estimates the difference between the clock of the coordinator (server 0) and
// the clock of this process.
#ifndef TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_
#define TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_

#include <cstdint>

#include "proto/rendezvous.pb.h"

namespace tributary {

// Estimates the difference between two clocks, the clock of the coordinator
// (server 0) minus this process's clock, from probes (Cristian, 1989). A probe
// is a message that the coordinator answers with the time of its clock. The
// coordinator has read its clock between the sending of the probe and the
// arrival of the answer, so the error of the estimate is at most half of the
// round trip. Uses the probe with the shortest round trip. Not thread-safe.
class ClockOffset {
 public:
  // The value of error_ns() before Add has accepted an answer.
  static constexpr int64_t kUnknown = INT64_MAX;

  // Returns the clock offset for the coordinator's own process: exactly 0.
  static ClockOffset OfCoordinator();

  // Adds the answer to a probe. `now_ns` is the time of this process's clock
  // when the answer arrived. Ignores answers whose times are impossible.
  void Add(const ClockReading& reading, int64_t now_ns);

  // The coordinator's clock minus this process's clock, in nanoseconds.
  int64_t offset_ns() const { return offset_ns_; }
  // The largest possible error of offset_ns(), in nanoseconds; kUnknown before
  // Add has accepted an answer.
  int64_t error_ns() const { return error_ns_; }
  // Number of probe answers that Add has accepted.
  int count() const { return count_; }

 private:
  int64_t offset_ns_ = 0;
  int64_t error_ns_ = kUnknown;
  int count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_
