#include "worker/data/index_data_set.h"

#include <numeric>

namespace tributary {

IndexDataSet::IndexDataSet(const ExternalDataSpec& spec)
    : train_samples_(spec.train_samples()),
      evaluation_samples_(spec.evaluation_samples()),
      fingerprint_(spec.fingerprint()) {
  info_.kind = DataInfo::Kind::kIndexes;
}

IndexDataSet::IndexDataSet(const DataSet& data)
    : info_(data.info()),
      train_samples_(data.train_samples()),
      evaluation_samples_(data.evaluation_samples()),
      fingerprint_(data.fingerprint()),
      labels_per_sample_(info_.kind == DataInfo::Kind::kTokens ||
                                 info_.token_labels
                             ? info_.sample_shape[0]
                             : 1) {}

void IndexDataSet::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                             Batch* batch) const {
  *batch = Batch();
  batch->indexes.assign(indexes.begin(), indexes.end());
  batch->epoch = epoch;
  FillLabels(batch);
}

void IndexDataSet::ReadEvaluation(int64_t begin, int64_t end,
                                  Batch* batch) const {
  *batch = Batch();
  batch->indexes.resize(end - begin);
  std::iota(batch->indexes.begin(), batch->indexes.end(), begin);
  FillLabels(batch);
}

void IndexDataSet::FillLabels(Batch* batch) const {
  batch->samples = static_cast<int64_t>(batch->indexes.size());
  batch->labels.assign(batch->samples * labels_per_sample_, 0);
}

}  // namespace tributary
