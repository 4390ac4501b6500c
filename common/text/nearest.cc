#include "common/text/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tributary {
namespace {

// Bounds the running time for hostile input. No known name is longer.
constexpr size_t kMaxLength = 200;

// Returns true if `name` is the beginning of `known` or the initials of its
// words. One character may stand for anything.
bool IsShortForm(absl::string_view name, absl::string_view known) {
  if (name.size() < 2) return false;
  std::string initials;
  for (absl::string_view word : absl::StrSplit(known, '_', absl::SkipEmpty())) {
    initials += word[0];
  }
  return absl::StartsWithIgnoreCase(known, name) ||
         absl::EqualsIgnoreCase(initials, name);
}

// Returns true if `name` begins or ends with `known` and has further words.
bool HasFurtherWords(absl::string_view name, absl::string_view known) {
  return absl::StartsWithIgnoreCase(name, absl::StrCat(known, "_")) ||
         absl::EndsWithIgnoreCase(name, absl::StrCat("_", known));
}

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  // row[j] is the distance between the current prefix of `a` and the first j
  // characters of `b`.
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i]) == absl::ascii_tolower(b[j]);
      const int replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

int NameDistance(absl::string_view name, absl::string_view known) {
  int distance = EditDistance(name, known);
  if (HasFurtherWords(name, known)) distance = std::min(distance, 2);
  if (IsShortForm(name, known)) distance = std::min(distance, 1);
  return distance;
}

std::string Nearest(absl::string_view name,
                    const std::vector<std::string>& candidates) {
  if (name.size() > kMaxLength) return "";
  const std::string* best = nullptr;
  std::pair<int, int> best_distance;
  for (const std::string& candidate : candidates) {
    // Of several candidates with the same beginning, the shortest is nearest.
    const std::pair<int, int> distance = {NameDistance(name, candidate),
                                          EditDistance(name, candidate)};
    const size_t longer = std::max(name.size(), candidate.size());
    if (static_cast<size_t>(distance.first) * 2 > longer) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : *best;
}

std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace tributary
