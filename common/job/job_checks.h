// Checks that several kinds of job fields share. Errors name the field.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tributary {

// The limits are far above practical values. They keep every product of sizes
// that the program forms (at most two sizes, a batch and eight bytes) below
// 2^63.
inline constexpr int64_t kMaxSteps = int64_t{1} << 40;
// The limit on factors; keeps their products in the range of float32.
inline constexpr double kMaxScale = 1e6;
// The limit on a layer's width and on a dimension of a sample.
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;

// Returns InvalidArgument with the message "PATH: WHAT".
template <typename... Args>
absl::Status Error(absl::string_view path, const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
}

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

// Checks all fields of the message and of the messages within it, independently
// of their meaning: numbers are finite, enums have a known value, and text,
// which appears in file names and log lines, has no control characters.
// `prefix` is prepended to the fields' names.
absl::Status ValidateValues(const google::protobuf::Message& message,
                            const std::string& prefix);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_
