// Parser for tables of texts: CSV and TSV files with a header.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_TEXT_TABLE_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_TEXT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maximum number of columns of a table of texts.
inline constexpr size_t kMaxTextColumns = 1 << 16;

// A column to read.
struct TextColumn {
  std::string name;
  // The field of the job that names the column, for messages.
  std::string field;
  // False: the table may lack the column; its cells are then absent.
  bool required = true;
};

struct TextTable {
  // For each column to read, the cells of all rows, or nothing if the table
  // lacks the column.
  std::vector<std::vector<std::string>> cells;
  // The number, from 1, of the line on which each row begins.
  std::vector<int64_t> lines;
};

// Parses a whole file. The first line that is not empty contains the names of
// the columns. The format is that of RFC 4180, with `delimiter` in place of the
// comma: a field that begins with a quotation mark ends at the next quotation
// mark that is not doubled. It may contain delimiters and line ends, and a
// doubled quotation mark stands for one. Quotation marks within other fields
// are ordinary characters. Lines end in "\n" or "\r\n". A byte order mark and
// empty lines are ignored. Blanks around names of columns are ignored; blanks
// around other fields are part of them.
//
// A pure function that accepts arbitrary bytes. Returns InvalidArgument if
// `bytes` is malformed, has no rows, or lacks a required column. The message
// starts with `name:line:` or `name:`, where `name` is the file's name.
absl::StatusOr<TextTable> ParseTextTable(absl::string_view bytes,
                                         char delimiter,
                                         const std::vector<TextColumn>& columns,
                                         absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_TEXT_TABLE_H_
