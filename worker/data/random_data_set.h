// Data set of random samples in memory, for measuring speed.
#ifndef TRIBUTARY_WORKER_DATA_RANDOM_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_RANDOM_DATA_SET_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "worker/data/data_set.h"

namespace tributary {

// A data set of random samples, which the constructor generates. Sample i
// depends only on i, on the shape of the samples and on the number of classes.
// It consists of features in [-1, 1) or tokens, and of labels, all uniformly
// distributed. For model.synthetic, samples have no features and the label 0.
// For model.bert, all samples have the length `context`. There is no held-out
// part.
class RandomDataSet final : public DataSet {
 public:
  // `job` must be valid and use random data.
  explicit RandomDataSet(const JobSpec& job);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return all_.samples; }
  int64_t evaluation_samples() const override { return 0; }
  uint64_t fingerprint() const override;
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  // Fills all_ with samples for model.bert.
  void FillSequences(const JobSpec& job);

  DataInfo info_;
  Batch all_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_RANDOM_DATA_SET_H_
