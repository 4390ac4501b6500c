// Estimates how far another process's clock is ahead of this process's clock.
#ifndef TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_
#define TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_

#include <cstdint>

#include "proto/rendezvous.pb.h"

namespace tributary {

// The difference between the coordinator's clock and this process's clock, from
// probes (Cristian, 1989): the coordinator has read its clock between the
// sending of a probe and the receipt of its answer, so half of the round trip
// bounds the error. The probe with the shortest round trip counts. Not
// thread-safe.
class ClockOffset {
 public:
  // The error before the first answer.
  static constexpr int64_t kUnknown = INT64_MAX;

  // Returns the offset of the process whose clock is the coordinator's.
  static ClockOffset OfCoordinator();

  // Adds the answer to a probe. `now_ns` is this process's clock when the
  // answer arrived. Ignores answers with impossible times.
  void Add(const ClockReading& reading, int64_t now_ns);

  // The coordinator's clock minus this process's clock, in nanoseconds.
  int64_t offset_ns() const { return offset_ns_; }
  // The largest possible error of offset_ns().
  int64_t error_ns() const { return error_ns_; }
  // Number of answers.
  int count() const { return count_; }

 private:
  int64_t offset_ns_ = 0;
  int64_t error_ns_ = kUnknown;
  int count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRACE_CLOCK_OFFSET_H_
