#include "worker/data/formats/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr size_t kNoColumn = static_cast<size_t>(-1);

// Returns a short, printable excerpt for error messages.
std::string DoubleQuote(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

absl::Status CheckIsTable(absl::string_view bytes, absl::string_view name) {
  const absl::string_view kind =
      absl::StartsWith(bytes, kZipMagic) ? "a ZIP archive, as .xlsx is"
      : absl::StartsWith(bytes, kGzipMagic)
          ? "gzip data; rename the file so that its name ends in .gz"
      : absl::StartsWith(bytes, kUtf16Magic) ? "UTF-16 text; save it as UTF-8"
      : absl::StrContains(bytes.substr(0, kSniffedBytes), '\0') ? "binary"
                                                                : "";
  if (kind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": is ", kind,
                   "; expected lines of text whose columns are separated by "
                   "commas, or by tabs if the name ends in .tsv"));
}

// Parses the rows of a file in one pass. Used once.
class TableParser {
 public:
  TableParser(absl::string_view bytes, char delimiter,
              const std::vector<TextColumn>& columns, absl::string_view name)
      : rest_(bytes), delimiter_(delimiter), columns_(columns), name_(name) {}

  absl::StatusOr<TextTable> Parse() {
    absl::ConsumePrefix(&rest_, kByteOrderMark);
    std::vector<std::string> fields;
    TRIBUTARY_ASSIGN_OR_RETURN(bool more, ReadRow(&fields));
    if (!more) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_,
                       ": has no lines, expected the names of the "
                       "columns and then a row for each sample"));
    }
    TRIBUTARY_RETURN_IF_ERROR(ReadHeader(&fields));
    while (true) {
      TRIBUTARY_ASSIGN_OR_RETURN(more, ReadRow(&fields));
      if (!more) break;
      TRIBUTARY_RETURN_IF_ERROR(AddRow(&fields));
    }
    if (table_.lines.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name_, ": has no rows after the line with the names of the columns"));
    }
    return std::move(table_);
  }

 private:
  template <typename... What>
  absl::Status Wrong(int64_t line, const What&... what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line, ": ", what...));
  }

  // Returns whether the rest begins with a line end, and removes it.
  bool TakeLineEnd() {
    if (!absl::ConsumePrefix(&rest_, "\n") &&
        !absl::ConsumePrefix(&rest_, "\r\n")) {
      return false;
    }
    ++line_;
    return true;
  }

  // Reads the fields of the next row that is not an empty line. Returns false
  // if there is none.
  absl::StatusOr<bool> ReadRow(std::vector<std::string>* fields) {
    while (TakeLineEnd()) {
    }
    if (rest_.empty()) return false;
    row_line_ = line_;
    size_t count = 0;
    do {
      if (count == kMaxTextColumns) {
        return Wrong(row_line_, "has more than ", kMaxTextColumns, " columns");
      }
      if (count == fields->size()) fields->emplace_back();
      TRIBUTARY_RETURN_IF_ERROR(ReadField(&(*fields)[count++]));
    } while (absl::ConsumePrefix(&rest_, absl::string_view(&delimiter_, 1)));
    fields->resize(count);
    TakeLineEnd();
    return true;
  }

  // Reads a field. The rest then begins with a delimiter or a line end, or is
  // empty.
  absl::Status ReadField(std::string* field) {
    field->clear();
    if (absl::ConsumePrefix(&rest_, "\"")) return ReadQuoted(field);
    const char stops[] = {delimiter_, '\n'};
    size_t end = std::min(rest_.find_first_of(absl::string_view(stops, 2)),
                          rest_.size());
    if (end > 0 && end < rest_.size() && rest_[end] == '\n' &&
        rest_[end - 1] == '\r') {
      --end;
    }
    field->assign(rest_.data(), end);
    rest_.remove_prefix(end);
    return absl::OkStatus();
  }

  absl::Status ReadQuoted(std::string* field) {
    const int64_t begin_line = line_;
    while (true) {
      const size_t end = rest_.find('"');
      if (end == absl::string_view::npos) {
        return Wrong(begin_line,
                     "a quotation mark has no counterpart; close "
                     "the field with one, and double those within "
                     "it");
      }
      line_ += std::count(rest_.begin(), rest_.begin() + end, '\n');
      field->append(rest_.data(), end);
      rest_.remove_prefix(end + 1);
      if (!absl::ConsumePrefix(&rest_, "\"")) break;
      field->push_back('"');
    }
    if (rest_.empty() || rest_.front() == delimiter_ || rest_.front() == '\n' ||
        absl::StartsWith(rest_, "\r\n")) {
      return absl::OkStatus();
    }
    return Wrong(line_, "after the closing quotation mark of ",
                 DoubleQuote(*field), " comes ",
                 DoubleQuote(rest_.substr(0, 10)),
                 ", expected the next column; double the quotation marks "
                 "within a quoted field");
  }

  absl::Status ReadHeader(std::vector<std::string>* fields) {
    for (std::string& field : *fields) absl::StripAsciiWhitespace(&field);
    width_ = fields->size();
    table_.cells.resize(columns_.size());
    for (const TextColumn& column : columns_) {
      const auto found = std::find(fields->begin(), fields->end(), column.name);
      if (found == fields->end()) {
        if (column.required) return MissingColumn(column, *fields);
        places_.push_back(kNoColumn);
        continue;
      }
      if (std::find(found + 1, fields->end(), column.name) != fields->end()) {
        return Wrong(row_line_, "two columns have the name ",
                     DoubleQuote(column.name), ", which ", column.field,
                     " names");
      }
      places_.push_back(static_cast<size_t>(found - fields->begin()));
    }
    return absl::OkStatus();
  }

  absl::Status MissingColumn(const TextColumn& column,
                             const std::vector<std::string>& fields) const {
    constexpr size_t kMaxNames = 20;
    std::string names = absl::StrJoin(
        fields.begin(), fields.begin() + std::min(fields.size(), kMaxNames),
        ", ", [](std::string* out, const std::string& field) {
          absl::StrAppend(out, DoubleQuote(field));
        });
    if (fields.size() > kMaxNames) absl::StrAppend(&names, ", ...");
    return Wrong(row_line_, "there is no column ", DoubleQuote(column.name),
                 ", which ", column.field, " names; the file has the ",
                 fields.size() == 1 ? "column " : "columns ", names);
  }

  absl::Status AddRow(std::vector<std::string>* fields) {
    if (fields->size() != width_) {
      return Wrong(row_line_, "has ",
                   Counted(static_cast<int64_t>(fields->size()), "column"),
                   ", expected ", width_,
                   " as in the first line; put fields with a delimiter into "
                   "quotation marks");
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] == kNoColumn) continue;
      table_.cells[i].push_back(std::move((*fields)[places_[i]]));
    }
    table_.lines.push_back(row_line_);
    return absl::OkStatus();
  }

  absl::string_view rest_;  // Text not parsed yet.
  const char delimiter_;
  const std::vector<TextColumn>& columns_;
  const absl::string_view name_;
  int64_t line_ = 1;      // Number of the line on which the rest begins.
  int64_t row_line_ = 1;  // Number of the line on which the row begins.
  size_t width_ = 0;      // Number of columns.
  // For each of columns_, its index in a row, or kNoColumn.
  std::vector<size_t> places_;
  TextTable table_;
};

}  // namespace

absl::StatusOr<TextTable> ParseTextTable(absl::string_view bytes,
                                         char delimiter,
                                         const std::vector<TextColumn>& columns,
                                         absl::string_view name) {
  TRIBUTARY_RETURN_IF_ERROR(CheckIsTable(bytes, name));
  return TableParser(bytes, delimiter, columns, name).Parse();
}

}  // namespace tributary
