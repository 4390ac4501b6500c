// Parser for tables of numbers and categories.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_CSV_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_CSV_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/formats/key_table.h"

namespace tributary {

// Maximum length of a line in bytes, which is enough for millions of columns.
inline constexpr int64_t kMaxCsvLineBytes = 16 << 20;
// Maximum number of classes. The model has one output for each class.
inline constexpr int64_t kMaxCsvClasses = 16 << 20;
// Maximum number of different values of a category column. Each value becomes a
// feature.
inline constexpr int64_t kMaxCsvCategories = 1 << 16;

struct CsvTable;

struct CsvOptions {
  // False if no column holds a label: all columns are features.
  bool labeled = true;
  // Index of the column that holds the label, counted from 0. A negative index
  // counts from the end: -1 is the last column.
  int32_t label_column = -1;
  // The character between two columns; not a quotation mark, a blank or a line
  // end.
  char delimiter = ',';
  // Indexes of the columns that hold categories (text in UTF-8), counted from 0
  // or, if negative, from the end. If the label's column is one of them, its
  // cells are in CsvTable::categories, and CsvTable::labels stays empty.
  std::vector<int32_t> category_columns;
  // Indexes of the columns that are not read, counted like those of
  // category_columns.
  std::vector<int32_t> ignored_columns;
  // True: each number x of a column, except the label, becomes the float32 of
  // ln(1 + max(x, 0)).
  bool log_transform = false;
  // The features whose columns contain keys. These columns hold neither numbers
  // nor categories. Null: none. Borrowed until the file has been parsed.
  const SparseSpec* sparse = nullptr;
  // The training file, if another file is parsed: its header says where the
  // columns of `sparse` are. Null: the file itself. Borrowed like `sparse`.
  const CsvTable* train = nullptr;
  // True to read labels as numbers (CsvTable::values) instead of classes
  // (CsvTable::labels).
  bool regression = false;
  // Exclusive upper bound for class labels; 0 stands for kMaxCsvClasses.
  int64_t classes = 0;
  // Expected number of columns, including the label; 0 stands for the number of
  // columns of the first line that is not a comment.
  int64_t columns = 0;
};

// A column whose cells are categories.
struct CsvCategories {
  int64_t column = 0;  // Counted from 0, including the label's column.
  // `values` contains the different values in the order of their first rows.
  // `first_lines` contains the number of the line on which each value first
  // appears.
  std::vector<std::string> values;
  std::vector<int64_t> first_lines;
  std::vector<int32_t> cells;  // [rows]; indexes of `values`.
};

struct CsvTable {
  int64_t rows = 0;     // At least 1.
  int64_t columns = 0;  // Number of columns, including the label's.
  int64_t label = -1;   // Index of the label's column; -1: none.
  // Number of columns without the label and those in `left_out`.
  int64_t features = 0;
  // The texts of the header; empty if the file has none.
  std::vector<std::string> names;
  // The columns that are ignored or contain keys, counted from 0 with the
  // label's column, in ascending order.
  std::vector<int64_t> left_out;
  // The value of CsvOptions::log_transform.
  bool log_transform = false;
  // The values of the columns that contain numbers, in row-major order. Neither
  // the label's column, the category columns nor those in `left_out` are
  // included.
  std::vector<float> cells;
  // The category columns in ascending order.
  std::vector<CsvCategories> categories;
  // The label of each row: in `values` if CsvOptions::regression is true,
  // otherwise in `labels`. The other vector is empty. ParseCsv leaves both
  // empty if there are no labels or if the labels are categories.
  std::vector<int32_t> labels;
  std::vector<float> values;
  // The features of CsvOptions::sparse, and their keys in each row.
  FeatureReader reader;
  KeyTable keys;
};

// Parses a whole file.
//
// Skips lines that begin with `#` as comments. The first line that is not a
// comment is a header if it contains something other than a number in a column
// of numbers, if no columns hold numbers, or if CsvOptions::sparse names a
// column by its text. A quoted column may contain delimiters; two quotation
// marks in a row within it stand for one. Lines end in "\n" or "\r\n". Blanks
// around a column, a byte order mark and empty lines at the end are ignored.
//
// A pure function that accepts arbitrary bytes. Returns InvalidArgument if
// `bytes` is malformed. The message starts with `name:line:`, where `name` is
// the file's name, and cites the column, counted from 0 as in `label_column`,
// and its text. If the file is not text, the message starts with `name:` and
// says what the file is.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view bytes,
                                  const CsvOptions& options,
                                  absl::string_view name);

// Returns the number of columns of the first line that is not a comment, or 0
// if there is none. A pure function that accepts arbitrary bytes.
int64_t CountCsvColumns(absl::string_view bytes, char delimiter);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_CSV_FORMAT_H_
