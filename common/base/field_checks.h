// Checks of numeric options. Each check returns OK, or InvalidArgument with a
// message that names the field by `path` and states the value and the allowed
// range.
#ifndef TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_
#define TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Largest value of an option that scales other numbers. Products of such
// options stay within float32's range.
inline constexpr double kMaxScale = 1e6;

// Returns the InvalidArgument error "PATH: WHAT".
template <typename... Args>
absl::Status Error(absl::string_view path, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
}

// Returns the InvalidArgument error for a required field that is not set.
absl::Status Required(absl::string_view path);
// Checks that `value` is in [least, most].
absl::Status Between(absl::string_view path, int64_t value, int64_t least,
                     int64_t most);
// Checks that `value` is in (0, kMaxScale].
absl::Status Positive(absl::string_view path, double value);
// Checks that `value` is in [0, kMaxScale].
absl::Status NotNegative(absl::string_view path, double value);
// Checks that `value` is in [0, 1).
absl::Status BelowOne(absl::string_view path, double value);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_
