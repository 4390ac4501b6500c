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

// Maps the columns of a table to features, in the order of the columns. Leaves
// out the label's column. A column of numbers becomes one feature, (value -
// mean) / deviation, computed in float64 and rounded to float32. A category
// column becomes one feature for each of its categories: 1 for the row's
// category, and 0 for the others. A column that is ignored or contains keys is
// no feature. Immutable.
class CsvEncoding {
 public:
  // Learns the encoding from the training part. For a category column, this is
  // the list of its categories, in the order of their bytes. For a column of
  // numbers, it is the mean and the population standard deviation if
  // `standardize` is true; a constant column has deviation 1. Without
  // `standardize`, numbers are not changed.
  static CsvEncoding Learn(const CsvTable& train, bool standardize);
  // Parses a string that ToJson has returned. Accepts arbitrary bytes. Returns
  // InvalidArgument, with the reason, if `json` is malformed.
  static absl::StatusOr<CsvEncoding> FromJson(absl::string_view json);

  // Returns the encoding as a JSON object. FromJson restores it exactly, bit
  // for bit.
  std::string ToJson() const;

  // Returns the value of CsvOptions::log_transform.
  bool log_transform() const { return log_transform_; }

  // Returns the number of columns of a table, including the label's.
  int64_t columns() const { return static_cast<int64_t>(columns_.size()); }
  // Returns the index of the label's column, counted from 0.
  int64_t label() const { return label_; }
  // Returns the number of features of a sample.
  int64_t features() const;
  // Returns the indexes, counted from 0, of the category columns of a table
  // that has the label's column (`labeled` is true) or lacks it. The label's
  // column is included if it is present and holds categories.
  std::vector<int32_t> CategoryColumns(bool labeled) const;
  // Returns the indexes of the columns that are no features, like
  // CategoryColumns.
  std::vector<int32_t> LeftOutColumns(bool labeled) const;
  // Returns the names of the classes, or an empty list if the labels are not
  // categories.
  const std::vector<std::string>& classes() const {
    return columns_[static_cast<size_t>(label_)].categories;
  }

  // Replaces table->cells by the features, [rows, features()]. If the labels
  // are categories, also sets table->labels. `table` must have been parsed from
  // a file with the columns of the training part; the label's column may be
  // absent. `name` is the file's name. Returns InvalidArgument, naming the
  // file, the column, and the line or the sample, if the table has a category
  // that the training part does not have, or a number whose feature is not
  // finite. Also returns InvalidArgument if the features would need more than
  // kMaxDataBytes.
  absl::Status Encode(absl::string_view name, CsvTable* table) const;

 private:
  struct Column {
    // Empty for a column of numbers.
    std::vector<std::string> categories;
    double mean = 0;
    double deviation = 1;
    // False: the numbers stay as they are, without any rounding.
    bool scaled = false;
    bool left_out = false;
  };

  // Returns the indexes of the columns for which `has` returns true, like
  // CategoryColumns.
  template <typename Has>
  std::vector<int32_t> ColumnsThat(bool labeled, const Has& has) const;
  // Returns InvalidArgument if this number of rows needs too much memory.
  absl::Status CheckFeatures(absl::string_view name, int64_t rows) const;

  std::vector<Column> columns_;  // Including the label's.
  int64_t label_ = 0;
  bool log_transform_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_CSV_ENCODING_H_
