// A matcher for errors, like StatusIs in later releases of Abseil.
#ifndef TRIBUTARY_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define TRIBUTARY_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace tributary {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// Matches a Status or StatusOr with this code whose message matches `message`.
MATCHER_P2(StatusIs, code, message,
           absl::StrCat(negation ? "is not " : "is ",
                        absl::StatusCodeToString(code), " with a message that ",
                        testing::DescribeMatcher<std::string>(message))) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << "whose status is " << status;
  return status.code() == code &&
         testing::ExplainMatchResult(message, std::string(status.message()),
                                     result_listener);
}

// Matches a Status or StatusOr with this code.
MATCHER_P(StatusIs, code,
          absl::StrCat(negation ? "is not " : "is ",
                       absl::StatusCodeToString(code))) {
  *result_listener << "whose status is " << StatusOf(arg);
  return StatusOf(arg).code() == code;
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_STATUS_MATCHERS_H_
