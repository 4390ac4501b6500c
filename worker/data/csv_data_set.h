// Data set of CSV files: rows of numbers and categories with a class or a
// number to predict.
#ifndef TRIBUTARY_WORKER_DATA_CSV_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_CSV_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/formats/csv_encoding.h"
#include "worker/data/formats/csv_format.h"
#include "worker/data/sample_data_set.h"

namespace tributary {

// Reads CSV files. A CsvEncoding, which is learned from the training file,
// converts the columns of a row to the features of a sample. Samples have shape
// {features}, which may be {0} if columns contain keys. Keeps all data in
// memory, as floats and keys.
class CsvDataSet final : public SampleDataSet {
 public:
  // Reads and parses the files that `spec` names. With `loss`
  // MEAN_SQUARED_ERROR, labels are numbers; with BINARY_CROSS_ENTROPY, they are
  // 0 or 1; otherwise, they are classes. `sparse` names the columns that
  // contain keys. Returns NotFound if a file does not exist, and
  // InvalidArgument for an invalid field of `spec`, a column of `sparse` that
  // does not exist, or a file that cannot be read or parsed.
  static absl::StatusOr<std::unique_ptr<CsvDataSet>> Open(
      const CsvSpec& spec, ModelSpec::Loss loss, const SparseSpec& sparse = {});

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_.rows; }
  int64_t evaluation_samples() const override { return test_.rows; }
  uint64_t fingerprint() const override { return fingerprint_; }
  // Returns the CsvEncoding as JSON, or an empty string if no numbers are
  // scaled and no column holds categories.
  std::string encoding() const override { return encoding_; }

 private:
  // `test` has no rows if there is no test file.
  CsvDataSet(CsvTable train, CsvTable test, DataInfo info, uint64_t fingerprint,
             std::string encoding);

  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const CsvTable train_;
  const CsvTable test_;
  const DataInfo info_;
  const uint64_t fingerprint_;
  const std::string encoding_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CSV_DATA_SET_H_
