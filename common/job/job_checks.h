// Checks that job fields of any kind share. Errors name the field.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tributary {

// The limits are far above any use. They keep every product of sizes that the
// program forms (at most two sizes, a batch and eight bytes) below 2^63.
inline constexpr int64_t kMaxSteps = int64_t{1} << 40;
// Numbers that scale others; their products must stay in float32's range.
inline constexpr double kMaxScale = 1e6;
// Of a layer, of a sample in one dimension.
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;

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

// What fields hold whatever they mean, in the message and those below it:
// numbers are finite, enums have a known value, text has no control characters
// (it goes into names of files and lines of logs). `prefix` comes before the
// fields' names.
absl::Status ValidateValues(const google::protobuf::Message& message,
                            const std::string& prefix);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_
