#include "worker/data/csv_data_set.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"

namespace tributary {
namespace {

absl::Status CheckSpec(const CsvSpec& spec, bool regression) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.csv.train: must be set");
  }
  if (spec.classes() < 0 || spec.classes() > kMaxCsvClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.classes: ", spec.classes(),
                     "; must be from 0 to ", kMaxCsvClasses));
  }
  if (regression && spec.classes() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.classes: ", spec.classes(),
                     "; model.loss: MEAN_SQUARED_ERROR has no classes"));
  }
  if (spec.delimiter().size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.delimiter: has ", spec.delimiter().size(),
                     " bytes; must be one character"));
  }
  return absl::OkStatus();
}

// Returns the number of classes of the training part, and checks it.
absl::StatusOr<int64_t> CountClasses(const CsvSpec& spec, const CsvTable& train,
                                     const CsvEncoding& encoding) {
  int64_t classes = spec.classes();
  if (!encoding.classes().empty()) {
    if (classes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.csv.classes: ", classes,
          ", but data.csv.category_column makes the labels categories, whose "
          "number is that of the different labels; leave it out"));
    }
    classes = static_cast<int64_t>(encoding.classes().size());
  } else if (classes == 0) {
    classes = int64_t{1} +
              *std::max_element(train.labels.begin(), train.labels.end());
  }
  if (classes < 2 && spec.classes() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.train(), ": all labels are ",
        encoding.classes().empty() ? "0" : "equal", ", in ",
        Counted(train.rows, "row"), "; at least 2 classes are needed"));
  }
  return classes;
}

}  // namespace

CsvOptions ParseOptions(const CsvSpec& spec, bool regression) {
  CsvOptions options;
  options.label_column = spec.label_column();
  options.delimiter = spec.delimiter()[0];
  options.category_columns.assign(spec.category_column().begin(),
                                  spec.category_column().end());
  options.regression = regression;
  options.classes = spec.classes();
  return options;
}

absl::StatusOr<std::unique_ptr<CsvDataSet>> CsvDataSet::Open(
    const CsvSpec& spec, bool regression) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec(spec, regression));
  std::string train_bytes;
  TRIBUTARY_RETURN_IF_ERROR(
      AppendLines(spec.train(), kMaxDataBytes, kMaxCsvLineBytes, &train_bytes));
  CsvOptions options = ParseOptions(spec, regression);
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable train,
                             ParseCsv(train_bytes, options, spec.train()));
  const CsvEncoding encoding = CsvEncoding::Learn(train, spec.standardize());
  if (regression && !encoding.classes().empty()) {
    return absl::InvalidArgumentError(
        "data.csv.category_column: names the label's column, but "
        "model.loss: MEAN_SQUARED_ERROR predicts numbers");
  }
  TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(spec.train(), &train));
  if (!regression) {
    TRIBUTARY_ASSIGN_OR_RETURN(options.classes,
                               CountClasses(spec, train, encoding));
  }
  CsvTable test;
  std::string test_bytes;
  if (spec.has_test()) {
    TRIBUTARY_RETURN_IF_ERROR(
        AppendLines(spec.test(), kMaxDataBytes, kMaxCsvLineBytes, &test_bytes));
    options.columns = train.columns;
    TRIBUTARY_ASSIGN_OR_RETURN(test,
                               ParseCsv(test_bytes, options, spec.test()));
    TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(spec.test(), &test));
  }
  const bool changes = spec.standardize() || spec.category_column_size() > 0;
  return std::unique_ptr<CsvDataSet>(
      new CsvDataSet(std::move(train), std::move(test), options.classes,
                     DataFingerprint({train_bytes, test_bytes}),
                     changes ? encoding.ToJson() : ""));
}

CsvDataSet::CsvDataSet(CsvTable train, CsvTable test, int64_t classes,
                       uint64_t fingerprint, std::string encoding)
    : train_(std::move(train)),
      test_(std::move(test)),
      fingerprint_(fingerprint),
      encoding_(std::move(encoding)) {
  info_.kind = DataInfo::Kind::kRows;
  info_.sample_shape = {train_.features};
  info_.classes = classes;
}

void CsvDataSet::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->features.resize(static_cast<size_t>(samples * train_.features));
  batch->labels.resize(
      static_cast<size_t>(train_.labels.empty() ? 0 : samples));
  batch->values.resize(
      static_cast<size_t>(train_.values.empty() ? 0 : samples));
  batch->tokens.clear();
}

absl::Status CsvDataSet::CopySample(const Sample& sample, int64_t place,
                                    Batch* batch) const {
  const CsvTable& table = sample.held_out ? test_ : train_;
  const int64_t row = sample.index;
  assert(row >= 0 && row < table.rows);
  std::copy_n(table.cells.data() + row * table.features, table.features,
              batch->features.data() + place * table.features);
  const size_t from = static_cast<size_t>(row);
  const size_t to = static_cast<size_t>(place);
  if (!table.labels.empty()) batch->labels[to] = table.labels[from];
  if (!table.values.empty()) batch->values[to] = table.values[from];
  return absl::OkStatus();
}

}  // namespace tributary
