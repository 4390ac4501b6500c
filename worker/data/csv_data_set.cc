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

absl::Status CheckSpec(const CsvSpec& spec, ModelSpec::Loss loss) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.csv.train: must be set");
  }
  if (spec.classes() < 0 || spec.classes() > kMaxCsvClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.classes: ", spec.classes(),
                     "; must be from 0 to ", kMaxCsvClasses));
  }
  if (loss != ModelSpec::CROSS_ENTROPY && spec.classes() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.csv.classes: ", spec.classes(),
        "; model.loss: ", ModelSpec::Loss_Name(loss), " has no classes"));
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

CsvOptions ParseOptions(const CsvSpec& spec, ModelSpec::Loss loss,
                        const SparseSpec& sparse) {
  CsvOptions options;
  options.label_column = spec.label_column();
  options.delimiter = spec.delimiter()[0];
  options.category_columns.assign(spec.category_column().begin(),
                                  spec.category_column().end());
  options.ignored_columns.assign(spec.ignored_column().begin(),
                                 spec.ignored_column().end());
  options.log_transform = spec.log_transform();
  options.regression = loss == ModelSpec::MEAN_SQUARED_ERROR;
  options.classes =
      loss == ModelSpec::BINARY_CROSS_ENTROPY ? 2 : spec.classes();
  if (sparse.feature_size() > 0) options.sparse = &sparse;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvDataSet>> CsvDataSet::Open(
    const CsvSpec& spec, ModelSpec::Loss loss, const SparseSpec& sparse) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec(spec, loss));
  std::string train_bytes;
  TRIBUTARY_RETURN_IF_ERROR(
      AppendLines(spec.train(), kMaxDataBytes, kMaxCsvLineBytes, &train_bytes));
  CsvOptions options = ParseOptions(spec, loss, sparse);
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable train,
                             ParseCsv(train_bytes, options, spec.train()));
  const CsvEncoding encoding = CsvEncoding::Learn(train, spec.standardize());
  if (loss != ModelSpec::CROSS_ENTROPY && !encoding.classes().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.csv.category_column: names the label's column, but model.loss: ",
        ModelSpec::Loss_Name(loss), " predicts numbers"));
  }
  TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(spec.train(), &train));
  if (loss == ModelSpec::CROSS_ENTROPY) {
    TRIBUTARY_ASSIGN_OR_RETURN(options.classes,
                               CountClasses(spec, train, encoding));
  }
  CsvTable test;
  std::string test_bytes;
  if (spec.has_test()) {
    TRIBUTARY_RETURN_IF_ERROR(
        AppendLines(spec.test(), kMaxDataBytes, kMaxCsvLineBytes, &test_bytes));
    options.columns = train.columns;
    options.train = &train;
    TRIBUTARY_ASSIGN_OR_RETURN(test,
                               ParseCsv(test_bytes, options, spec.test()));
    TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(spec.test(), &test));
  }
  const bool changes = spec.standardize() || spec.category_column_size() > 0 ||
                       spec.log_transform() || !train.left_out.empty();
  DataInfo info;
  info.kind = DataInfo::Kind::kRows;
  info.sample_shape = {train.features};
  info.classes = options.classes;
  info.vector_dims = train.reader.dims();
  info.vector_names = train.reader.names();
  return std::unique_ptr<CsvDataSet>(
      new CsvDataSet(std::move(train), std::move(test), std::move(info),
                     DataFingerprint({train_bytes, test_bytes}),
                     changes ? encoding.ToJson() : ""));
}

CsvDataSet::CsvDataSet(CsvTable train, CsvTable test, DataInfo info,
                       uint64_t fingerprint, std::string encoding)
    : train_(std::move(train)),
      test_(std::move(test)),
      info_(std::move(info)),
      fingerprint_(fingerprint),
      encoding_(std::move(encoding)) {}

void CsvDataSet::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->features.resize(static_cast<size_t>(samples * train_.features));
  batch->labels.resize(
      static_cast<size_t>(train_.labels.empty() ? 0 : samples));
  batch->values.resize(
      static_cast<size_t>(train_.values.empty() ? 0 : samples));
  batch->tokens.clear();
  ResizeKeys(train_.reader.size(), samples, batch);
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
  AppendKeys(table.keys, row, batch);
  return absl::OkStatus();
}

}  // namespace tributary
