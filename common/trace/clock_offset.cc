#include "common/trace/clock_offset.h"

namespace tributary {

ClockOffset ClockOffset::OfCoordinator() {
  ClockOffset offset;
  offset.error_ns_ = 0;
  return offset;
}

void ClockOffset::Add(const ClockReading& reading, int64_t now_ns) {
  // Times before zero would let the differences below overflow.
  if (reading.sent_ns() < 0 || reading.sent_ns() > now_ns ||
      reading.coordinator_ns() < 0) {
    return;
  }
  const int64_t round_trip = now_ns - reading.sent_ns();
  ++count_;
  const int64_t error = round_trip / 2 + round_trip % 2;
  if (error >= error_ns_) return;
  error_ns_ = error;
  offset_ns_ = reading.coordinator_ns() - (reading.sent_ns() + round_trip / 2);
}

}  // namespace tributary
