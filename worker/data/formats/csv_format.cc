#include "worker/data/formats/csv_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/numerics/exponential.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "common/text/nearest.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr absl::string_view kBlanks = " \t\r\v\f";
constexpr absl::string_view kWhitespace = " \t\r\n";

// What a column contains.
struct Role {
  enum Kind { kNumber, kCategory, kLabel, kIgnored, kKey };
  Kind kind = kNumber;
  // kCategory: the index of CsvTable::categories. kKey: that of
  // FeatureReader::columns.
  size_t index = 0;
};

// Returns a short, printable excerpt for error messages.
std::string Quote(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...'" : "'");
}

// Returns the end of the first column of `line`: at a delimiter outside
// quotation marks, or at the end of the line. A doubled quotation mark within a
// column closes and reopens the quotation.
size_t ColumnEnd(absl::string_view line, char delimiter) {
  const size_t first = line.find_first_not_of(kBlanks);
  // A tab may be the delimiter.
  const size_t plain = std::min(line.find(delimiter), line.size());
  if (first == absl::string_view::npos || line[first] != '"' || plain < first) {
    return plain;
  }
  bool quoted = false;
  for (size_t i = first; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == delimiter && !quoted) return i;
  }
  return line.size();
}

// Removes the next column from `line` and returns it without surrounding blanks
// and quotation marks.
absl::string_view TakeColumn(absl::string_view* line, char delimiter) {
  const size_t end = ColumnEnd(*line, delimiter);
  absl::string_view column = absl::StripAsciiWhitespace(line->substr(0, end));
  line->remove_prefix(std::min(end + 1, line->size()));
  if (column.size() >= 2 && column.front() == '"' && column.back() == '"') {
    column = absl::StripAsciiWhitespace(column.substr(1, column.size() - 2));
  }
  return column;
}

// Returns the text of a column, in which two quotation marks stand for one.
std::string Unquoted(absl::string_view column) {
  return absl::StrReplaceAll(column, {{"\"\"", "\""}});
}

int64_t CountColumns(absl::string_view line, char delimiter) {
  if (!absl::StrContains(line, '"')) {
    return 1 + std::count(line.begin(), line.end(), delimiter);
  }
  int64_t columns = 1;
  for (size_t end; (end = ColumnEnd(line, delimiter)) < line.size();
       ++columns) {
    line.remove_prefix(end + 1);
  }
  return columns;
}

// Returns whether the line ends within a quotation. Only the last column can,
// because it extends to the end of the line.
bool LeavesQuoteOpen(absl::string_view line, char delimiter) {
  if (!absl::StrContains(line, '"')) return false;
  for (size_t end; (end = ColumnEnd(line, delimiter)) < line.size();) {
    line.remove_prefix(end + 1);
  }
  const absl::string_view last = absl::StripAsciiWhitespace(line);
  return absl::StartsWith(last, "\"") &&
         std::count(last.begin(), last.end(), '"') % 2 != 0;
}

bool IsComment(absl::string_view line) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "#");
}

// Returns InvalidArgument, naming the file's format and how to convert it, if
// the first bytes are not text.
absl::Status CheckIsCsv(absl::string_view bytes, absl::string_view name) {
  const auto error = [name](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", what...));
  };
  constexpr absl::string_view kExpected =
      "; data.csv reads lines of text with columns: ";
  if (absl::StartsWith(bytes, kNpyMagic)) {
    return error("is a NumPy array (.npy)", kExpected,
                 "convert it in Python with numpy.savetxt('data.csv', "
                 "numpy.load('",
                 name, "'), delimiter=',')");
  }
  if (absl::StartsWith(bytes, kZipMagic)) {
    return error("is a ZIP archive, as .npz and .xlsx are", kExpected,
                 "save its table as CSV");
  }
  if (absl::StartsWith(bytes, kGzipMagic)) {
    return error("is gzip data", kExpected,
                 "rename the file so that its name ends in .gz");
  }
  if (absl::StartsWith(bytes, kUtf16Magic)) {
    return error("is UTF-16 text", kExpected, "save it as UTF-8");
  }
  // A later one is treated as damage, which line and column locate better.
  const size_t nul = bytes.substr(0, kSniffedBytes).find('\0');
  if (nul != absl::string_view::npos) {
    return error("byte ", nul, ": is 0, so the file is binary", kExpected,
                 "save the table as CSV text");
  }
  return absl::OkStatus();
}

// Parses the lines of a file in one pass. Used once.
class CsvParser {
 public:
  CsvParser(absl::string_view bytes, const CsvOptions& options,
            absl::string_view name)
      : rest_(bytes), options_(options), name_(name) {}

  absl::StatusOr<CsvTable> Parse() {
    if (rest_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": is empty"));
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckIsCsv(rest_, name_));
    absl::ConsumePrefix(&rest_, kByteOrderMark);
    // Ignores whitespace after the last line with content.
    rest_ = rest_.substr(0, rest_.find_last_not_of(kWhitespace) + 1);
    while (!rest_.empty()) TRIBUTARY_RETURN_IF_ERROR(ParseLine(TakeLine()));
    if (table_.rows == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": holds no samples, only ",
                       columns_ > 0 ? "a header"
                       : line_ > 0  ? "comments"
                                    : "blanks"));
    }
    return std::move(table_);
  }

 private:
  absl::string_view TakeLine() {
    ++line_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    absl::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    absl::ConsumeSuffix(&line, "\r");
    return line;
  }

  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_, ": ", what));
  }

  absl::Status WrongColumn(int64_t column, absl::string_view text,
                           absl::string_view what) const {
    return Wrong(absl::StrCat(column == table_.label ? "label, " : "",
                              "column ", column,
                              " (counted from 0): ", Quote(text), " ", what));
  }

  absl::Status ParseLine(absl::string_view line) {
    if (static_cast<int64_t>(line.size()) > kMaxCsvLineBytes) {
      return Wrong(absl::StrCat("a line of ", line.size(), " bytes; at most ",
                                kMaxCsvLineBytes, " are read"));
    }
    if (absl::StripAsciiWhitespace(line).empty()) {
      return Wrong("the line is empty");
    }
    if (IsComment(line)) return absl::OkStatus();
    if (LeavesQuoteOpen(line, options_.delimiter)) {
      return Wrong("a quotation mark is not closed on this line");
    }
    const int64_t columns = CountColumns(line, options_.delimiter);
    const bool first = columns_ == 0;
    if (first) columns_ = options_.columns > 0 ? options_.columns : columns;
    if (columns != columns_) {
      return Wrong(absl::StrCat(
          Counted(columns, "column"), "; ",
          first ? "the training data have " : "the lines before have ",
          columns_));
    }
    if (first) {
      TRIBUTARY_RETURN_IF_ERROR(SetColumns(line));
      if (IsHeader()) return CheckHeader();
      table_.names.clear();
    }
    for (int64_t column = 0; column < columns; ++column) {
      const absl::string_view text = TakeColumn(&line, options_.delimiter);
      TRIBUTARY_RETURN_IF_ERROR(
          ParseText(roles_[static_cast<size_t>(column)], column, text));
    }
    if (table_.reader.size() > 0) TRIBUTARY_RETURN_IF_ERROR(AppendKeys());
    ++table_.rows;
    return absl::OkStatus();
  }

  absl::Status ParseText(const Role& role, int64_t column,
                         absl::string_view text) {
    switch (role.kind) {
      case Role::kNumber:
        return ParseCell(column, text);
      case Role::kCategory:
        return ParseCategory(role.index, column, text);
      case Role::kLabel:
        return ParseLabel(text);
      case Role::kKey:
        texts_[role.index] = Unquoted(text);
        break;
      case Role::kIgnored:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status AppendKeys() {
    views_.assign(texts_.begin(), texts_.end());
    const absl::Status status = table_.keys.AppendRow(table_.reader, views_);
    return status.ok() ? status : Wrong(status.message());
  }

  bool IsHeader() const {
    if (names_column_) return true;
    bool numbers = false;
    for (size_t i = 0; i < roles_.size(); ++i) {
      if (roles_[i].kind != Role::kNumber && roles_[i].kind != Role::kLabel) {
        continue;
      }
      numbers = true;
      double value;
      if (!absl::SimpleAtod(table_.names[i], &value)) return true;
    }
    return !numbers;
  }

  // Checks that the columns with keys have the same names as in the training
  // file.
  absl::Status CheckHeader() const {
    if (options_.train == nullptr || options_.train->names.empty()) {
      return absl::OkStatus();
    }
    for (const int64_t column : table_.reader.columns()) {
      const std::string& name = table_.names[static_cast<size_t>(column)];
      const std::string& expected =
          options_.train->names[static_cast<size_t>(column)];
      if (name != expected) {
        return WrongColumn(
            column, name,
            absl::StrCat("is ", Quote(expected), " in the training data"));
      }
    }
    return absl::OkStatus();
  }

  // Called for the first line that is not a comment.
  absl::Status SetColumns(absl::string_view line) {
    table_.columns = columns_;
    table_.log_transform = options_.log_transform;
    for (int64_t column = 0; column < columns_; ++column) {
      table_.names.push_back(Unquoted(TakeColumn(&line, options_.delimiter)));
    }
    roles_.resize(static_cast<size_t>(columns_));
    if (options_.labeled) {
      if (columns_ < 2) {
        return Wrong("1 column; a label and at least one more are needed");
      }
      TRIBUTARY_ASSIGN_OR_RETURN(table_.label, ColumnOf("data.csv.label_column",
                                                        options_.label_column));
      roles_[static_cast<size_t>(table_.label)].kind = Role::kLabel;
    }
    TRIBUTARY_RETURN_IF_ERROR(SetCategories());
    TRIBUTARY_RETURN_IF_ERROR(SetIgnored());
    if (options_.sparse != nullptr) TRIBUTARY_RETURN_IF_ERROR(SetKeys());
    for (int64_t column = 0; column < columns_; ++column) {
      const Role::Kind kind = roles_[static_cast<size_t>(column)].kind;
      if (kind == Role::kIgnored || kind == Role::kKey) {
        table_.left_out.push_back(column);
      }
    }
    table_.features = columns_ - (options_.labeled ? 1 : 0) -
                      static_cast<int64_t>(table_.left_out.size());
    if (table_.features == 0 && table_.reader.size() == 0) {
      return Wrong("data.csv.ignored_column: leaves no column to learn from");
    }
    return absl::OkStatus();
  }

  // Returns the index, counted from 0, that a field of the job names.
  absl::StatusOr<int64_t> ColumnOf(absl::string_view field, int64_t index) {
    const int64_t column = index < 0 ? columns_ + index : index;
    if (column >= 0 && column < columns_) return column;
    return Wrong(absl::StrCat(Counted(columns_, "column"), "; ", field, ": ",
                              index, " must be from ", -columns_, " to ",
                              columns_ - 1));
  }

  absl::Status SetCategories() {
    for (const int32_t index : options_.category_columns) {
      TRIBUTARY_ASSIGN_OR_RETURN(const int64_t column,
                                 ColumnOf("data.csv.category_column", index));
      Role& role = roles_[static_cast<size_t>(column)];
      if (role.kind == Role::kCategory) {
        return Wrong(absl::StrCat("data.csv.category_column: ", index,
                                  " is the column ", column,
                                  ", which it names twice"));
      }
      role.kind = Role::kCategory;
    }
    for (int64_t column = 0; column < columns_; ++column) {
      Role& role = roles_[static_cast<size_t>(column)];
      if (role.kind != Role::kCategory) continue;
      role.index = table_.categories.size();
      table_.categories.emplace_back();
      table_.categories.back().column = column;
    }
    numbers_.resize(table_.categories.size());
    return absl::OkStatus();
  }

  // Returns an error if a field of the job that names `column` conflicts with
  // another field.
  absl::Status CheckFree(absl::string_view field, int64_t column) const {
    const char* other = nullptr;
    switch (roles_[static_cast<size_t>(column)].kind) {
      case Role::kLabel:
        other = "label_column";
        break;
      case Role::kCategory:
        other = "category_column";
        break;
      case Role::kIgnored:
        other = "ignored_column";
        break;
      case Role::kNumber:
      case Role::kKey:
        return absl::OkStatus();
    }
    return Wrong(absl::StrCat(field, ": names column ", column,
                              " (counted from 0), which data.csv.", other,
                              " names, too; leave one of them out"));
  }

  absl::Status SetIgnored() {
    for (const int32_t index : options_.ignored_columns) {
      constexpr absl::string_view kField = "data.csv.ignored_column";
      TRIBUTARY_ASSIGN_OR_RETURN(const int64_t column, ColumnOf(kField, index));
      TRIBUTARY_RETURN_IF_ERROR(CheckFree(kField, column));
      roles_[static_cast<size_t>(column)].kind = Role::kIgnored;
    }
    return absl::OkStatus();
  }

  absl::Status SetKeys() {
    if (options_.train != nullptr) {
      table_.reader = options_.train->reader;
    } else {
      TRIBUTARY_ASSIGN_OR_RETURN(
          table_.reader,
          FeatureReader::Create(
              *options_.sparse,
              [this](const std::string& field, const std::string& column) {
                return FindKeys(field, column);
              }));
    }
    table_.keys = KeyTable(table_.reader);
    const std::vector<int64_t>& columns = table_.reader.columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      roles_[static_cast<size_t>(columns[i])] = {Role::kKey, i};
    }
    texts_.resize(columns.size());
    return absl::OkStatus();
  }

  // Returns the index of a column that `field` names.
  absl::StatusOr<int64_t> FindKeys(const std::string& field,
                                   const std::string& name) {
    int64_t column = 0;
    if (absl::SimpleAtoi(name, &column)) {
      if (column < 0 || column >= columns_) {
        return Wrong(absl::StrCat(Counted(columns_, "column"), "; ", field,
                                  ": ", column, " must be from 0 to ",
                                  columns_ - 1));
      }
    } else {
      const std::vector<std::string>& names = table_.names;
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        const std::string near = DidYouMean(name, names);
        return Wrong(absl::StrCat(
            field, ": no column is named ", Quote(name),
            near.empty() ? "; write a name of the first line, or the number of "
                           "a column"
                         : near));
      }
      if (std::count(found, names.end(), name) > 1) {
        return Wrong(absl::StrCat(field, ": several columns are named ",
                                  Quote(name), "; write the column's number"));
      }
      names_column_ = true;
      column = found - names.begin();
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckFree(field, column));
    return column;
  }

  absl::Status ParseCategory(size_t category, int64_t column,
                             absl::string_view text) {
    CsvCategories& categories = table_.categories[category];
    std::string value = Unquoted(text);
    if (value.empty()) return WrongColumn(column, text, "has no category");
    if (EscapeForTerminal(value) != value) {
      return WrongColumn(column, text,
                         "is not text in UTF-8 without control characters");
    }
    const auto found = numbers_[category].emplace(
        std::move(value), static_cast<int32_t>(categories.values.size()));
    if (found.second) {
      if (static_cast<int64_t>(categories.values.size()) >= kMaxCsvCategories) {
        return WrongColumn(
            column, text,
            absl::StrCat("is one category too many: a column may have ",
                         kMaxCsvCategories));
      }
      categories.values.push_back(found.first->first);
      categories.first_lines.push_back(line_);
    }
    categories.cells.push_back(found.first->second);
    return absl::OkStatus();
  }

  absl::StatusOr<float> ParseNumber(int64_t column, absl::string_view text) {
    float value;
    if (!absl::SimpleAtof(text, &value)) {
      return WrongColumn(column, text, "is not a number");
    }
    if (!std::isfinite(value)) {
      return WrongColumn(column, text, "is not a finite 32-bit number");
    }
    return value;
  }

  absl::Status ParseCell(int64_t column, absl::string_view text) {
    TRIBUTARY_ASSIGN_OR_RETURN(const float value, ParseNumber(column, text));
    table_.cells.push_back(options_.log_transform
                               ? static_cast<float>(NaturalLogarithm(
                                     1 + std::max(double{value}, 0.0)))
                               : value);
    return absl::OkStatus();
  }

  absl::Status ParseLabel(absl::string_view text) {
    TRIBUTARY_ASSIGN_OR_RETURN(const float number,
                               ParseNumber(table_.label, text));
    if (options_.regression) {
      table_.values.push_back(number);
      return absl::OkStatus();
    }
    // Not float, which would round 16777217 to 16777216.
    double label = 0;
    const int64_t classes =
        options_.classes > 0 ? options_.classes : kMaxCsvClasses;
    if (!absl::SimpleAtod(text, &label) || label != std::floor(label) ||
        label < 0 || label >= static_cast<double>(classes)) {
      return WrongColumn(
          table_.label, text,
          absl::StrCat("is not a class: an integer from 0 to ", classes - 1));
    }
    table_.labels.push_back(static_cast<int32_t>(label));
    return absl::OkStatus();
  }

  absl::string_view rest_;  // Text not parsed yet.
  const CsvOptions& options_;
  const absl::string_view name_;
  int64_t line_ = 0;         // Number of the current line, counted from 1.
  int64_t columns_ = 0;      // 0 before the first line with columns.
  std::vector<Role> roles_;  // For each column.
  // True if the job names a column by its text in the first line.
  bool names_column_ = false;
  // The texts of table_.reader.columns() in the current line, and views of
  // them.
  std::vector<std::string> texts_;
  std::vector<absl::string_view> views_;
  // For each of table_.categories, the index of each of its values.
  std::vector<absl::flat_hash_map<std::string, int32_t>> numbers_;
  CsvTable table_;
};

}  // namespace

int64_t CountCsvColumns(absl::string_view bytes, char delimiter) {
  absl::ConsumePrefix(&bytes, kByteOrderMark);
  for (const absl::string_view line : absl::StrSplit(bytes, '\n')) {
    if (!IsComment(line) && !absl::StripAsciiWhitespace(line).empty()) {
      return CountColumns(line, delimiter);
    }
  }
  return 0;
}

absl::StatusOr<CsvTable> ParseCsv(absl::string_view bytes,
                                  const CsvOptions& options,
                                  absl::string_view name) {
  return CsvParser(bytes, options, name).Parse();
}

}  // namespace tributary
