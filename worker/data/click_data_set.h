// Data set of clicks, with the columns of Criteo's data sets.
#ifndef TRIBUTARY_WORKER_DATA_CLICK_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_CLICK_DATA_SET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/clicks/click_source.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/sample_data_set.h"

namespace tributary {

// The samples of data.criteo and data.clicks: 13 numbers, the label 0 or 1, and
// the keys of the job's features.
class ClickDataSet final : public SampleDataSet {
 public:
  // `job` must use data.criteo, whose files are read, or data.clicks. Returns
  // NotFound if a file does not exist, and InvalidArgument, naming the field or
  // the file and the line, if a feature names a column that does not exist or a
  // file is invalid.
  static absl::StatusOr<std::unique_ptr<ClickDataSet>> Open(const JobSpec& job);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return source_->samples(false); }
  int64_t evaluation_samples() const override { return source_->samples(true); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }

 private:
  ClickDataSet(std::unique_ptr<ClickSource> source, DataInfo info);

  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const std::unique_ptr<ClickSource> source_;
  const DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICK_DATA_SET_H_
