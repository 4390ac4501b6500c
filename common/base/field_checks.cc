#include "common/base/field_checks.h"

namespace tributary {

absl::Status Required(absl::string_view path) {
  return Error(path, "is required");
}

absl::Status Between(absl::string_view path, int64_t value, int64_t least,
                     int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Error(path, value, " is not between ", least, " and ", most);
}

absl::Status Positive(absl::string_view path, double value) {
  if (value > 0 && value <= kMaxScale) return absl::OkStatus();
  return Error(path, value, " is not above 0 and at most ", kMaxScale);
}

absl::Status NotNegative(absl::string_view path, double value) {
  if (value >= 0 && value <= kMaxScale) return absl::OkStatus();
  return Error(path, value, " is not between 0 and ", kMaxScale);
}

absl::Status BelowOne(absl::string_view path, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Error(path, value, " is not at least 0 and below 1");
}

}  // namespace tributary
