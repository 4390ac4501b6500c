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

// Largest value of a job option that is used as a factor, such as the learning
// rate. The product of up to six such options is within float32's range.
inline constexpr double kMaxScale = 1e6;

// Returns an InvalidArgument error with the message "PATH: WHAT", where WHAT is
// the concatenation of the arguments `what`.
template <typename... Args>
absl::Status Error(absl::string_view path, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
}

// Returns the InvalidArgument error for the required field `path`, which is not
// set.
absl::Status Required(absl::string_view path);
// Returns InvalidArgument, naming the field `path`, unless `value` is in
// [least, most].
absl::Status Between(absl::string_view path, int64_t value, int64_t least,
                     int64_t most);
// Returns InvalidArgument, naming the field `path`, unless `value` is above 0
// and at most kMaxScale.
absl::Status Positive(absl::string_view path, double value);
// Returns InvalidArgument, naming the field `path`, unless `value` is at least
// 0 and at most kMaxScale.
absl::Status NotNegative(absl::string_view path, double value);
// Returns InvalidArgument, naming the field `path`, unless `value` is at least
// 0 and below 1.
absl::Status BelowOne(absl::string_view path, double value);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_FIELD_CHECKS_H_
