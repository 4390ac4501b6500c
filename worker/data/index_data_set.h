// Data set whose samples are only indexes.
#ifndef TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "worker/data/data_set.h"

namespace tributary {

// Yields batches that contain only the indexes of samples, for models that
// obtain the samples themselves. Immutable and thread-safe.
class IndexDataSet final : public DataSet {
 public:
  // For jobs that set data.external without a name: there is no data set.
  // `spec` must be valid, and its field `name` must be empty.
  explicit IndexDataSet(const ExternalDataSpec& spec);
  // For a program that reads the samples of `data` itself, and can therefore
  // take part in a job together with built-in workers, which read `data`. Has
  // the info, the numbers of samples and the fingerprint of `data`, whose
  // lifetime does not matter. Batches have a label of 0 for each sample or, if
  // the data have a label for each token, for each token.
  explicit IndexDataSet(const DataSet& data);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_samples_; }
  int64_t evaluation_samples() const override { return evaluation_samples_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  void FillLabels(Batch* batch) const;

  DataInfo info_;
  const int64_t train_samples_;
  const int64_t evaluation_samples_;
  const uint64_t fingerprint_;
  int64_t labels_per_sample_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_INDEX_DATA_SET_H_
