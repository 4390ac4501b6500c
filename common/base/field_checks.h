// Checks of options. Errors name the field by its path.
#ifndef TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_
#define TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Numbers that scale others; their products must stay in float32's range.
inline constexpr double kMaxScale = 1e6;

// InvalidArgument: "PATH: WHAT".
template <typename... Args>
absl::Status Error(absl::string_view path, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
}

absl::Status Required(absl::string_view path);
// In [least, most].
absl::Status Between(absl::string_view path, int64_t value, int64_t least,
                     int64_t most);
// In (0, kMaxScale].
absl::Status Positive(absl::string_view path, double value);
// In [0, kMaxScale].
absl::Status NotNegative(absl::string_view path, double value);
// In [0, 1).
absl::Status BelowOne(absl::string_view path, double value);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_
