#include "worker/data/csv_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr absl::string_view kWhitespace = " \t\r\n";

// Text of a file for a message: short, printable.
std::string Quote(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...'" : "'");
}

// Cuts the next column off `line` (more than one left: at the comma).
absl::string_view TakeColumn(absl::string_view* line) {
  const size_t end = std::min(line->find(','), line->size());
  const absl::string_view column = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return absl::StripAsciiWhitespace(column);
}

int64_t CountColumns(absl::string_view line) {
  return 1 + std::count(line.begin(), line.end(), ',');
}

bool IsHeader(absl::string_view line) {
  for (int64_t left = CountColumns(line); left > 0; --left) {
    double value;
    if (!absl::SimpleAtod(TakeColumn(&line), &value)) return true;
  }
  return false;
}

// One pass over the lines of a file; used once.
class CsvParser {
 public:
  CsvParser(absl::string_view bytes, const CsvOptions& options,
            absl::string_view name)
      : rest_(bytes), options_(options), name_(name) {}

  absl::StatusOr<CsvTable> Parse() {
    if (rest_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": is empty"));
    }
    absl::ConsumePrefix(&rest_, kByteOrderMark);
    // What is left behind the last line with something in it.
    rest_ = rest_.substr(0, rest_.find_last_not_of(kWhitespace) + 1);
    while (!rest_.empty()) TRIBUTARY_RETURN_IF_ERROR(ParseLine(TakeLine()));
    if (table_.rows == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": holds no samples, only ",
                       line_ == 0 ? "blanks" : "a header"));
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
    return Wrong(absl::StrCat(column == label_ ? "label, " : "", "column ",
                              column, " (counted from 0): ", Quote(text), " ",
                              what));
  }

  absl::Status ParseLine(absl::string_view line) {
    if (static_cast<int64_t>(line.size()) > kMaxCsvLineBytes) {
      return Wrong(absl::StrCat("a line of ", line.size(), " bytes; at most ",
                                kMaxCsvLineBytes, " are read"));
    }
    if (absl::StripAsciiWhitespace(line).empty()) {
      return Wrong("the line is empty");
    }
    const int64_t columns = CountColumns(line);
    if (line_ == 1) TRIBUTARY_RETURN_IF_ERROR(SetColumns(columns));
    if (columns != columns_) {
      return Wrong(absl::StrCat(
          columns, " columns; ",
          line_ == 1 ? "the training data have " : "the lines before have ",
          columns_));
    }
    if (line_ == 1 && IsHeader(line)) return absl::OkStatus();
    for (int64_t column = 0; column < columns; ++column) {
      const absl::string_view text = TakeColumn(&line);
      TRIBUTARY_RETURN_IF_ERROR(column == label_ ? ParseLabel(text)
                                                 : ParseCell(column, text));
    }
    ++table_.rows;
    return absl::OkStatus();
  }

  // Called for the first line.
  absl::Status SetColumns(int64_t columns) {
    columns_ = options_.columns > 0 ? options_.columns : columns;
    label_ = options_.label_column < 0 ? columns_ + options_.label_column
                                       : options_.label_column;
    if (columns_ < 2) {
      return Wrong("1 column; a label and at least one more are needed");
    }
    if (label_ < 0 || label_ >= columns_) {
      return Wrong(absl::StrCat(
          columns_, " columns; data.csv.label_column: ", options_.label_column,
          " must be from ", -columns_, " to ", columns_ - 1));
    }
    table_.features = columns_ - 1;
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
    table_.cells.push_back(value);
    return absl::OkStatus();
  }

  absl::Status ParseLabel(absl::string_view text) {
    TRIBUTARY_ASSIGN_OR_RETURN(const float number, ParseNumber(label_, text));
    if (options_.regression) {
      table_.values.push_back(number);
      return absl::OkStatus();
    }
    // Not as a float: that would take 16777217 for 16777216.
    double label = 0;
    const int64_t classes =
        options_.classes > 0 ? options_.classes : kMaxCsvClasses;
    if (!absl::SimpleAtod(text, &label) || label != std::floor(label) ||
        label < 0 || label >= static_cast<double>(classes)) {
      return WrongColumn(
          label_, text,
          absl::StrCat("is not a class: an integer from 0 to ", classes - 1));
    }
    table_.labels.push_back(static_cast<int32_t>(label));
    return absl::OkStatus();
  }

  absl::string_view rest_;  // What is not parsed yet.
  const CsvOptions& options_;
  const absl::string_view name_;
  int64_t line_ = 0;  // Of the line that is being parsed; the first is 1.
  int64_t columns_ = 0;
  int64_t label_ = -1;  // Column, counted from 0.
  CsvTable table_;
};

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(absl::string_view bytes,
                                  const CsvOptions& options,
                                  absl::string_view name) {
  return CsvParser(bytes, options, name).Parse();
}

}  // namespace tributary
