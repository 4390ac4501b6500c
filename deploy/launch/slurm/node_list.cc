#include "deploy/launch/slurm/node_list.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

constexpr size_t kMaxDigits = 9;

bool ParseDigits(absl::string_view text, int64_t* number) {
  if (text.empty() || text.size() > kMaxDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return absl::SimpleAtoi(text, number);
}

// Appends the numbers of `ranges`, such as "0-2,05", each with the width of the
// start of its range. Returns false if `ranges` is malformed.
bool ExpandRanges(absl::string_view ranges, std::vector<std::string>* numbers) {
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int64_t first = 0;
    int64_t last = 0;
    if (ends.size() > 2 || !ParseDigits(ends.front(), &first) ||
        !ParseDigits(ends.back(), &last) || last < first ||
        last - first >= static_cast<int64_t>(kMaxSlurmNodes)) {
      return false;
    }
    for (int64_t number = first; number <= last; ++number) {
      std::string digits = absl::StrCat(number);
      if (digits.size() < ends.front().size()) {
        digits.insert(0, ends.front().size() - digits.size(), '0');
      }
      numbers->push_back(digits);
    }
    if (numbers->size() > kMaxSlurmNodes) return false;
  }
  return true;
}

// Appends the names that `item` stands for: a name with ranges in brackets.
bool ExpandItem(absl::string_view item, std::vector<std::string>* names) {
  std::vector<std::string> found = {""};
  while (!item.empty()) {
    const size_t open = item.find('[');
    const absl::string_view plain = item.substr(0, open);
    if (plain.find_first_of("]()") != absl::string_view::npos) return false;
    for (std::string& name : found) absl::StrAppend(&name, plain);
    if (open == absl::string_view::npos) break;
    const size_t close = item.find(']', open);
    std::vector<std::string> numbers;
    if (close == absl::string_view::npos ||
        !ExpandRanges(item.substr(open + 1, close - open - 1), &numbers) ||
        found.size() * numbers.size() > kMaxSlurmNodes) {
      return false;
    }
    std::vector<std::string> longer;
    for (const std::string& name : found) {
      for (const std::string& number : numbers) {
        longer.push_back(absl::StrCat(name, number));
      }
    }
    found = std::move(longer);
    item.remove_prefix(close + 1);
  }
  for (const std::string& name : found) {
    if (name.empty() || absl::StrContains(name, " ")) return false;
  }
  names->insert(names->end(), found.begin(), found.end());
  return names->size() <= kMaxSlurmNodes;
}

// Splits the list at the commas that are not in brackets.
std::vector<absl::string_view> SplitItems(absl::string_view list) {
  std::vector<absl::string_view> items;
  size_t begin = 0;
  bool in_brackets = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') in_brackets = true;
    if (list[i] == ']') in_brackets = false;
    if (list[i] == ',' && !in_brackets) {
      items.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  items.push_back(list.substr(begin));
  return items;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(
    absl::string_view list) {
  std::vector<std::string> names;
  for (const absl::string_view item : SplitItems(list)) {
    if (item.empty() || !ExpandItem(item, &names)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", list,
                       "' is not a list of Slurm nodes, such as "
                       "n[0-2,5],gpu07"));
    }
  }
  return names;
}

absl::StatusOr<std::vector<int>> ExpandNodeCounts(absl::string_view list) {
  std::vector<int> counts;
  for (absl::string_view item : absl::StrSplit(list, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, "(x");
    int64_t count = 0;
    int64_t times = 1;
    bool good = parts.size() <= 2 && ParseDigits(parts[0], &count);
    if (good && parts.size() == 2) {
      absl::string_view repeat = parts[1];
      good = absl::ConsumeSuffix(&repeat, ")") && ParseDigits(repeat, &times);
    }
    if (!good || times + counts.size() > kMaxSlurmNodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", list,
                       "' is not a list of numbers for Slurm nodes, such as "
                       "2(x3),1"));
    }
    counts.insert(counts.end(), times, static_cast<int>(count));
  }
  return counts;
}

}  // namespace tributary
