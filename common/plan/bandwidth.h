// How people write the speed of a link.
#ifndef TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_
#define TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Bytes per second of "10Gbit", "800Mbit/s", "2.5Gbps", "3GB/s" or "200MiB/s":
// a number, then bits (bit, bps) or bytes (B), with k, M, G, T (powers of 1000)
// or, for bytes, Ki, Mi, Gi, Ti (powers of 1024) in front, then "/s" or
// nothing. InvalidArgument, with what to write instead, for anything else:
// "10G" and "10Gb" too, which some read as bits and others as bytes.
absl::StatusOr<double> ParseBandwidth(absl::string_view text);

// "10 Gbit/s", "1.5 Gbit/s".
std::string FormatBandwidth(double bytes_per_second);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_
