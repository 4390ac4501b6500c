#include "deploy/launch/plan/plan_units.h"

#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// Size of a message's fields before its payload, with gRPC's and HTTP/2's
// framing: 5 bytes, and 9 per 16 KiB.
constexpr double kMessageBytes = 40;
constexpr double kFrameBytes = 9.0 / 16384;

}  // namespace

double BytesOnWire(double payload_bytes) {
  return payload_bytes * (1 + kFrameBytes) + kMessageBytes;
}

std::string PlanMilliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return absl::StrFormat(ms < 10 ? "%.2f" : ms < 100 ? "%.1f" : "%.0f", ms);
}

std::string PlanBytes(double bytes) {
  if (bytes < 1e6) return absl::StrFormat("%.3g kB", bytes / 1e3);
  if (bytes < 1e9) return absl::StrFormat("%.3g MB", bytes / 1e6);
  return absl::StrFormat("%.3g GB", bytes / 1e9);
}

}  // namespace tributary
