// Parses and prints the bandwidth of a link.
#ifndef TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_
#define TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Returns the bytes per second of "10Gbit", "800Mbit/s", "2.5Gbps", "3GB/s" or
// "200MiB/s": a number, an optional prefix and a unit. The unit is bits (bit,
// bit/s, bps) or bytes (B, B/s). Prefixes are k or K, M, G and T (powers of
// 1000) and, for bytes, Ki, Mi, Gi and Ti (powers of 1024). Ignores spaces
// around the text and before the prefix or unit. Returns InvalidArgument, with
// the expected form, for other text, including the ambiguous "10G" and "10Gb",
// and for bandwidths that are not above 0 or are above 1 Pbit/s.
absl::StatusOr<double> ParseBandwidth(absl::string_view text);

// Formats a bandwidth for messages, for example as "10 Gbit/s" or "1.5 Gbit/s".
std::string FormatBandwidth(double bytes_per_second);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_BANDWIDTH_H_
