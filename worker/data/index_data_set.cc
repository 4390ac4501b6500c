#include "worker/data/index_data_set.h"

#include <numeric>

namespace tributary {

IndexDataSet::IndexDataSet(const ExternalDataSpec& spec)
    : train_samples_(spec.train_samples()),
      evaluation_samples_(spec.evaluation_samples()),
      fingerprint_(spec.fingerprint()) {
  info_.kind = DataInfo::Kind::kIndexes;
}

void IndexDataSet::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                             Batch* batch) const {
  *batch = Batch();
  batch->samples = static_cast<int64_t>(indexes.size());
  batch->indexes.assign(indexes.begin(), indexes.end());
  batch->epoch = epoch;
}

void IndexDataSet::ReadEvaluation(int64_t begin, int64_t end,
                                  Batch* batch) const {
  *batch = Batch();
  batch->samples = end - begin;
  batch->indexes.resize(end - begin);
  std::iota(batch->indexes.begin(), batch->indexes.end(), begin);
}

}  // namespace tributary
