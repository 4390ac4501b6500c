#include "common/text/nearest.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Bounds the running time for hostile input. No known name is longer.
constexpr size_t kMaxLength = 200;

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

std::string Nearest(absl::string_view name,
                    const std::vector<std::string>& candidates) {
  if (name.size() > kMaxLength) return "";
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    const size_t longer = std::max(name.size(), candidate.size());
    if (static_cast<size_t>(distance) * 2 > longer) continue;
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
