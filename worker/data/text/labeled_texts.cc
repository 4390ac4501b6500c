#include "worker/data/text/labeled_texts.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/escape.h"
#include "worker/data/files/data_file.h"
#include "worker/data/formats/text_table.h"

namespace tributary {
namespace {

constexpr char kTextField[] = "data.labeled_text.text_column";
constexpr char kSecondField[] = "data.labeled_text.second_text_column";
constexpr char kLabelField[] = "data.labeled_text.label_column";

template <typename... What>
absl::Status WrongRow(const LabeledTexts& texts, size_t row,
                      const What&... what) {
  return absl::InvalidArgumentError(
      absl::StrCat(texts.path, ":", texts.lines[row], ": ", what...));
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

bool IsBlank(absl::string_view text) {
  return absl::StripAsciiWhitespace(text).empty();
}

absl::Status CheckNotEmpty(const LabeledTexts& texts,
                           const std::vector<std::string>& column,
                           absl::string_view name) {
  for (size_t row = 0; row < column.size(); ++row) {
    if (!IsBlank(column[row])) continue;
    return WrongRow(texts, row, "column ", Quoted(name),
                    " is empty; remove the row, or write a text");
  }
  return absl::OkStatus();
}

// Removes blanks around the labels, and checks them.
absl::Status CleanLabels(bool needs_labels, LabeledTexts* texts) {
  for (size_t row = 0; row < texts->labels.size(); ++row) {
    std::string& label = texts->labels[row];
    absl::StripAsciiWhitespace(&label);
    if (label.empty() && needs_labels) {
      return WrongRow(*texts, row, "the label is empty");
    }
    if (EscapeForTerminal(label) != label) {
      return WrongRow(*texts, row, "the label ", Quoted(label),
                      " is not text in UTF-8 without control characters");
    }
  }
  return absl::OkStatus();
}

bool IsTsv(absl::string_view path) {
  return absl::EndsWith(path, ".tsv") || absl::EndsWith(path, ".tsv.gz");
}

absl::StatusOr<LabeledTexts> ReadLines(const std::string& path,
                                       absl::string_view bytes) {
  absl::ConsumePrefix(&bytes, "\xef\xbb\xbf");
  absl::ConsumeSuffix(&bytes, "\n");
  LabeledTexts texts;
  texts.path = path;
  for (absl::string_view line : absl::StrSplit(bytes, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    texts.lines.push_back(texts.size() + 1);
    texts.texts.emplace_back(line);
    if (IsBlank(line)) {
      return WrongRow(texts, texts.lines.size() - 1,
                      "the line is empty, expected one text in each line");
    }
  }
  return texts;
}

}  // namespace

absl::StatusOr<LabeledTexts> ParseLabeledTexts(const LabeledTextSpec& spec,
                                               bool needs_labels,
                                               const std::string& path,
                                               absl::string_view bytes) {
  const bool pairs = spec.has_second_text_column();
  std::vector<TextColumn> columns = {
      {spec.text_column(), kTextField, /*required=*/true},
      {spec.label_column(), kLabelField, needs_labels}};
  if (pairs) {
    columns.push_back(
        {spec.second_text_column(), kSecondField, /*required=*/true});
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      TextTable table,
      ParseTextTable(bytes, IsTsv(path) ? '\t' : ',', columns, path));
  LabeledTexts texts;
  texts.path = path;
  texts.lines = std::move(table.lines);
  texts.texts = std::move(table.cells[0]);
  texts.labels = std::move(table.cells[1]);
  TRIBUTARY_RETURN_IF_ERROR(
      CheckNotEmpty(texts, texts.texts, spec.text_column()));
  if (pairs) {
    texts.seconds = std::move(table.cells[2]);
    TRIBUTARY_RETURN_IF_ERROR(
        CheckNotEmpty(texts, texts.seconds, spec.second_text_column()));
  }
  TRIBUTARY_RETURN_IF_ERROR(CleanLabels(needs_labels, &texts));
  return texts;
}

absl::StatusOr<LabeledTexts> ReadTextsToPredict(const LabeledTextSpec& spec,
                                                const std::string& path) {
  const bool lines =
      absl::EndsWith(path, ".txt") || absl::EndsWith(path, ".txt.gz");
  if (lines && spec.has_second_text_column()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": the model classifies pairs of texts; pass a CSV or TSV file "
        "with the columns ",
        Quoted(spec.text_column()), " and ",
        Quoted(spec.second_text_column())));
  }
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  if (lines) return ReadLines(path, bytes);
  return ParseLabeledTexts(spec, /*needs_labels=*/false, path, bytes);
}

absl::StatusOr<std::vector<std::string>> ClassesOfTexts(
    const LabeledTexts& texts) {
  const std::set<std::string> different(texts.labels.begin(),
                                        texts.labels.end());
  if (different.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        texts.path, ": all labels are ", Quoted(*different.begin()),
        "; at least 2 classes are needed; ", kLabelField, " names the column"));
  }
  if (static_cast<int64_t>(different.size()) > kMaxTextClasses) {
    return absl::InvalidArgumentError(absl::StrCat(
        texts.path, ": there are ", different.size(),
        " different labels, at most ", kMaxTextClasses, " are allowed; set ",
        kLabelField, " to a column of classes"));
  }
  std::vector<std::string> classes(different.begin(), different.end());
  std::vector<std::pair<int64_t, std::string>> numbered;
  for (const std::string& name : classes) {
    int64_t number;
    if (!absl::SimpleAtoi(name, &number)) return classes;
    numbered.emplace_back(number, name);
  }
  std::sort(numbered.begin(), numbered.end());
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i] = std::move(numbered[i].second);
  }
  return classes;
}

absl::StatusOr<std::vector<int32_t>> NumberLabels(
    const LabeledTexts& texts, const std::vector<std::string>& classes) {
  absl::flat_hash_map<absl::string_view, int32_t> numbers;
  for (const std::string& name : classes) {
    numbers.emplace(name, static_cast<int32_t>(numbers.size()));
  }
  std::vector<int32_t> labels;
  for (size_t row = 0; row < texts.labels.size(); ++row) {
    const auto found = numbers.find(texts.labels[row]);
    if (found == numbers.end()) {
      constexpr size_t kMaxNames = 20;
      return WrongRow(
          texts, row, "the label ", Quoted(texts.labels[row]),
          " does not occur in the training file, whose labels are ",
          absl::StrJoin(classes.begin(),
                        classes.begin() + std::min(classes.size(), kMaxNames),
                        ", ",
                        [](std::string* out, const std::string& name) {
                          absl::StrAppend(out, Quoted(name));
                        }),
          classes.size() > kMaxNames ? ", ..." : "");
    }
    labels.push_back(found->second);
  }
  return labels;
}

}  // namespace tributary
