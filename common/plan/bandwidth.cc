#include "common/plan/bandwidth.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

// Largest bandwidth that is accepted: 1 Pbit/s. A larger value is a typing
// error.
constexpr double kMaxBytesPerSecond = 125e12;

// Returns the bytes per second of the unit, or 0 if it is unknown.
double UnitBytes(absl::string_view unit) {
  const bool per_second = absl::ConsumeSuffix(&unit, "/s");
  double bytes = 0;
  if (absl::ConsumeSuffix(&unit, "bit") ||
      (!per_second && absl::ConsumeSuffix(&unit, "bps"))) {
    bytes = 1.0 / 8;
  } else if (absl::ConsumeSuffix(&unit, "B")) {
    bytes = 1;
  } else {
    return 0;
  }
  const double base =
      bytes == 1 && absl::ConsumeSuffix(&unit, "i") ? 1024 : 1e3;
  if (unit.empty()) return base == 1024 ? 0 : bytes;
  if (unit.size() > 1) return 0;
  const size_t power = absl::string_view("kMGT").find(unit == "K" ? "k" : unit);
  if (power == absl::string_view::npos) return 0;
  return bytes * std::pow(base, static_cast<double>(power) + 1);
}

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" ", why,
                   "; write a link's speed as in 10Gbit, 800Mbit or 3GB/s"));
}

}  // namespace

absl::StatusOr<double> ParseBandwidth(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t digits = trimmed.find_first_not_of("0123456789.");
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(trimmed.substr(0, digits), &number)) {
    return Wrong(text, "does not begin with a number");
  }
  if (digits == absl::string_view::npos) return Wrong(text, "has no unit");
  const absl::string_view unit =
      absl::StripLeadingAsciiWhitespace(trimmed.substr(digits));
  const double bytes = UnitBytes(unit);
  if (bytes == 0) {
    return Wrong(text, absl::StrCat("has an unknown unit, \"", unit, "\""));
  }
  if (number <= 0) return Wrong(text, "is not above zero");
  if (number * bytes > kMaxBytesPerSecond) {
    return Wrong(text, "is faster than any link");
  }
  return number * bytes;
}

std::string FormatBandwidth(double bytes_per_second) {
  double bits = 8 * bytes_per_second;
  for (const char* unit : {"bit/s", "kbit/s", "Mbit/s"}) {
    if (bits < 1000) return absl::StrFormat("%.4g %s", bits, unit);
    bits /= 1000;
  }
  return absl::StrFormat("%.4g Gbit/s", bits);
}

}  // namespace tributary
