// Suggests the known name that is nearest to a mistyped one.
#ifndef TRIBUTARY_COMMON_TEXT_NEAREST_H_
#define TRIBUTARY_COMMON_TEXT_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns the Levenshtein distance: the smallest number of insertions,
// deletions and replacements that turn `a` into `b`. Ignores case. Takes O(|a|
// * |b|) time.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the candidate with the smallest distance, and the first of several.
// Returns an empty string if more than half of the characters of every
// candidate differ.
std::string Nearest(absl::string_view name,
                    const std::vector<std::string>& candidates);

// Returns "; did you mean X?" with Nearest(), to append to an error message, or
// an empty string if there is no such candidate.
std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_NEAREST_H_
