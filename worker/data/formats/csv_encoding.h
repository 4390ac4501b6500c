// The features that a model sees for the columns of a CSV file.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_CSV_ENCODING_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_CSV_ENCODING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/formats/csv_format.h"

namespace tributary {

// Maps the columns of a table to features, in the order of the columns and
// without the label's. A column of numbers is one feature, (value - mean) /
// deviation, computed in float64 and rounded to float32. A category column is
// one feature for each of its categories: 1 for the row's category, and 0 for
// the others. Immutable.
class CsvEncoding {
 public:
  // Learns the encoding from the training part: the categories of each category
  // column, in the order of their bytes, and, if `standardize` is true, the
  // mean and the population standard deviation of each column of numbers. A
  // constant column has deviation 1. Without `standardize`, numbers are not
  // changed.
  static CsvEncoding Learn(const CsvTable& train, bool standardize);
  // Reads what ToJson has written. Accepts arbitrary bytes. Returns
  // InvalidArgument, which says what is wrong, if `json` is anything else.
  static absl::StatusOr<CsvEncoding> FromJson(absl::string_view json);

  // Returns the encoding as a JSON object. The encoding read back by FromJson
  // has the same bits.
  std::string ToJson() const;

  // Number of columns of a table, including the label's.
  int64_t columns() const { return static_cast<int64_t>(columns_.size()); }
  // Index of the label's column, counted from 0.
  int64_t label() const { return label_; }
  // Number of features of a sample.
  int64_t features() const;
  // The indexes, counted from 0 and without the label's, of the columns with
  // categories in a table with the label (`labeled` is true) or without it.
  std::vector<int32_t> CategoryColumns(bool labeled) const;
  // The classes' names, if the labels are categories; otherwise empty.
  const std::vector<std::string>& classes() const {
    return columns_[static_cast<size_t>(label_)].categories;
  }

  // Replaces table->cells by the features, [rows, features()], and, if the
  // labels are categories, sets table->labels. `table` must have been parsed
  // from a file with the columns of the training part; with columns() - 1
  // columns, the label's is absent. `name` is the file's name. Returns
  // InvalidArgument, naming file, line and column, if the table has a category
  // that the training part does not have, or a number whose feature is not
  // finite, or if the features would need more than kMaxDataBytes.
  absl::Status Encode(absl::string_view name, CsvTable* table) const;

 private:
  struct Column {
    // Empty for a column of numbers.
    std::vector<std::string> categories;
    double mean = 0;
    double deviation = 1;
    // False: the numbers stay as they are, without any rounding.
    bool scaled = false;
  };

  // Returns InvalidArgument if this number of rows needs too much memory.
  absl::Status CheckFeatures(absl::string_view name, int64_t rows) const;

  std::vector<Column> columns_;  // Including the label's.
  int64_t label_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_CSV_ENCODING_H_
