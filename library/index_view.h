// A view of a data set for a program that reads the samples itself.
#ifndef TRIBUTARY_LIBRARY_INDEX_VIEW_H_
#define TRIBUTARY_LIBRARY_INDEX_VIEW_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "worker/data/data_set.h"

namespace tributary {

// Has the same numbers of samples and the same fingerprint as the data set
// `data`, but yields batches that contain only the indexes of samples, because
// the program reads the samples itself. The program can therefore take part in
// a job together with built-in workers, which read `data`. A batch has
// `indexes`, `epoch`, and a label of 0 for each sample or, if the data have a
// label for each token, for each token. The sample count is the number of
// labels.
class IndexView final : public DataSet {
 public:
  explicit IndexView(std::unique_ptr<DataSet> data) : data_(std::move(data)) {}

  const DataInfo& info() const override { return data_->info(); }
  int64_t train_samples() const override { return data_->train_samples(); }
  int64_t evaluation_samples() const override {
    return data_->evaluation_samples();
  }
  uint64_t fingerprint() const override { return data_->fingerprint(); }

  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  const std::unique_ptr<DataSet> data_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_INDEX_VIEW_H_
