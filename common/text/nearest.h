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

// Returns how much `name` differs from the name `known`: the EditDistance, but
// at most 1 if `name` is a short form of it, namely its beginning ("eps" of
// "epsilon") or the initials of its words ("lr" of "learning_rate"), and at
// most 2 if `name` has further words ("max_steps" of "steps"). Words end with
// '_'. Ignores case.
int NameDistance(absl::string_view name, absl::string_view known);

// Returns the candidate with the smallest NameDistance from `name`; of several
// such candidates, that with the smallest EditDistance; of several of these,
// the first. Returns an empty string if every distance is more than half the
// length of the longer of the two names, or if `name` has more than 200
// characters.
std::string Nearest(absl::string_view name,
                    const std::vector<std::string>& candidates);

// Returns "; did you mean X?", where X is Nearest(name, candidates), for
// appending to an error message. Returns an empty string if Nearest returns
// one.
std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_NEAREST_H_
