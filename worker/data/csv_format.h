// Parser for tables of comma-separated numbers.
#ifndef TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maximum length of a line in bytes, which is enough for millions of columns.
inline constexpr int64_t kMaxCsvLineBytes = 16 << 20;
// Maximum number of classes. The model has one output for each class.
inline constexpr int64_t kMaxCsvClasses = 16 << 20;

struct CsvOptions {
  // False if no column holds a label: all columns are features.
  bool labeled = true;
  // Index of the column that holds the label, counted from 0. A negative index
  // counts from the end: -1 is the last column.
  int32_t label_column = -1;
  // True to read labels as numbers (CsvTable::values) instead of classes
  // (CsvTable::labels).
  bool regression = false;
  // Exclusive upper bound for class labels; 0 stands for kMaxCsvClasses.
  int64_t classes = 0;
  // Expected number of columns, including the label; 0 stands for the number of
  // columns of the first line that is not a comment.
  int64_t columns = 0;
};

struct CsvTable {
  int64_t rows = 0;          // At least 1.
  int64_t features = 0;      // Number of columns without the label; at least 1.
  std::vector<float> cells;  // [rows, features]
  // The label of each row: in `values` with CsvOptions::regression, otherwise
  // in `labels`. The other vector is empty, and so are both without labels.
  std::vector<int32_t> labels;
  std::vector<float> values;
};

// Parses a whole file.
//
// Skips lines that begin with `#` as comments. The first line that is not a
// comment is a header if one of its columns is not a number; only the number of
// its columns is then used. Columns may be quoted and then may contain commas.
// Lines end in "\n" or "\r\n". Blanks around a column, a byte order mark and
// empty lines at the end are ignored.
//
// A pure function that accepts arbitrary bytes. Returns InvalidArgument if
// `bytes` is malformed. The message starts with `name:line:`, where `name` is
// the file's name, and cites the column, counted from 0 as in `label_column`,
// and its text. If the file is not text, the message starts with `name:` and
// says what the file is.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view bytes,
                                  const CsvOptions& options,
                                  absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_
