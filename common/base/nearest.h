// "Did you mean ...?": the known name that a mistyped one resembles most.
#ifndef TRIBUTARY_COMMON_BASE_NEAREST_H_
#define TRIBUTARY_COMMON_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// Smallest number of characters to insert, delete or replace (Levenshtein,
// 1966) that makes `b` of `a`. Case does not matter. Time a * b.
int EditDistance(absl::string_view a, absl::string_view b);

// The candidate with the smallest distance, the first of several; empty if
// none is near enough to be what was meant (more than half its characters
// differ).
std::string Nearest(absl::string_view name,
                    const std::vector<std::string>& candidates);

// "; did you mean X?" for Nearest(), or nothing: to end an error message.
std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_NEAREST_H_
