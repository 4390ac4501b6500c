// Tables of comma-separated numbers.
#ifndef TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Longer lines are refused; a line of this length has millions of columns.
inline constexpr int64_t kMaxCsvLineBytes = 16 << 20;
// Class labels must be below; a number of classes is a number of model outputs.
inline constexpr int64_t kMaxCsvClasses = 16 << 20;

struct CsvOptions {
  // Counted from 0; negative: from the end.
  int32_t label_column = -1;
  // Labels are numbers (`values`), not classes (`labels`).
  bool regression = false;
  // Class labels are below this; 0: below kMaxCsvClasses.
  int64_t classes = 0;
  // Number of columns, label included; 0: that of the first line.
  int64_t columns = 0;
};

struct CsvTable {
  int64_t rows = 0;          // At least 1.
  int64_t features = 0;      // Columns without the label; at least 1.
  std::vector<float> cells;  // [rows, features]
  // [rows], one of the two by CsvOptions::regression.
  std::vector<int32_t> labels;
  std::vector<float> values;
};

// Parses a whole file. Lines that begin with `#` are skipped as comments. A
// first line after them in which some column is not a number is a header and
// gives only the number of columns. Columns may be between quotation marks, and
// then hold commas. Lines end in "\n" or "\r\n"; blanks around a column, a byte
// order mark and empty lines at the end are ignored. Pure, and safe for any
// bytes. InvalidArgument starts with `name:line:`, `name` being the file, and
// cites the column, counted from 0 as in `label_column`, and its text; for a
// file that is not text it starts with `name:` and says what it is instead.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view bytes,
                                  const CsvOptions& options,
                                  absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CSV_FORMAT_H_
