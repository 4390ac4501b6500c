#include "worker/data/formats/criteo_format.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/numerics/exponential.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

constexpr char kTab = '\t';

// Returns a short, printable excerpt for error messages.
std::string Excerpt(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...'" : "'");
}

absl::Status WrongColumns(absl::string_view line) {
  const auto columns = 1 + std::count(line.begin(), line.end(), kTab);
  return absl::InvalidArgumentError(
      absl::StrCat(Counted(columns, "column"), " separated by tabs, expected ",
                   kCriteoColumns, ": the label, I1 to I13 and C1 to C26",
                   columns == kCriteoColumns - 1
                       ? "; the label may be missing, as in files to predict"
                       : ""));
}

}  // namespace

absl::Status ParseCriteoLine(absl::string_view line, CriteoLine* parsed) {
  size_t column = 0;
  for (absl::string_view rest = line;; ++column) {
    if (column == kCriteoColumns) return WrongColumns(line);
    const size_t end = rest.find(kTab);
    parsed->texts[column] = rest.substr(0, end);
    if (end == absl::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (column + 1 != kCriteoColumns) return WrongColumns(line);
  const absl::string_view label = parsed->texts[0];
  if (label != "0" && label != "1") {
    return absl::InvalidArgumentError(
        absl::StrCat("label, column 0: ", Excerpt(label), " is not 0 or 1"));
  }
  parsed->label = label == "1" ? 1 : 0;
  for (size_t i = 0; i < kCriteoNumbers; ++i) {
    const absl::string_view text = parsed->texts[i + 1];
    int64_t number = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("column I", i + 1, ": ", Excerpt(text),
                       " is not a 64-bit integer, nor empty"));
    }
    parsed->features[i] = static_cast<float>(NaturalLogarithm(
        1 + static_cast<double>(std::max<int64_t>(number, 0))));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FindCriteoColumn(const std::string& field,
                                         const std::string& column) {
  const char kind = column.empty() ? '\0' : column[0];
  const bool named = kind == 'I' || kind == 'C';
  int64_t number = 0;
  const bool ok =
      absl::SimpleAtoi(absl::string_view(column).substr(named ? 1 : 0),
                       &number) &&
      number >= 1 &&
      number <= (kind == 'I'   ? kCriteoNumbers
                 : kind == 'C' ? kCriteoCategories
                               : kCriteoColumns - 1);
  if (ok) return kind == 'C' ? number + kCriteoNumbers : number;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", Excerpt(column),
                   " is no column with keys; write C1 to C26, or I1 to I13"));
}

}  // namespace tributary
