// Data set whose samples are only indexes, for jobs that set data.external
// without a name.
#ifndef TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "worker/data/data_set.h"

namespace tributary {

// Yields batches that contain only the indexes of samples, for models that
// obtain the samples themselves. Reads no files. Immutable and thread-safe.
class IndexDataSet final : public DataSet {
 public:
  // `spec` must be valid, and its field `name` must be empty.
  explicit IndexDataSet(const ExternalDataSpec& spec);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_samples_; }
  int64_t evaluation_samples() const override { return evaluation_samples_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  DataInfo info_;
  const int64_t train_samples_;
  const int64_t evaluation_samples_;
  const uint64_t fingerprint_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_
