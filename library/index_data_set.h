// A data set whose samples are only numbers: the program reads them itself.
#ifndef TRIBUTARY_LIBRARY_INDEX_DATA_SET_H_
#define TRIBUTARY_LIBRARY_INDEX_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "worker/data/data_set.h"

namespace tributary {

// Has the facts of another data set, but fills batches with `indexes`, `epoch`
// and one label for each sample (token), which is 0.
class IndexDataSet final : public DataSet {
 public:
  explicit IndexDataSet(std::unique_ptr<DataSet> facts)
      : facts_(std::move(facts)) {}

  const DataInfo& info() const override { return facts_->info(); }
  int64_t train_samples() const override { return facts_->train_samples(); }
  int64_t evaluation_samples() const override {
    return facts_->evaluation_samples();
  }
  uint64_t fingerprint() const override { return facts_->fingerprint(); }

  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  const std::unique_ptr<DataSet> facts_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_INDEX_DATA_SET_H_
