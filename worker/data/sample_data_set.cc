#include "worker/data/sample_data_set.h"

namespace tributary {

void SampleDataSet::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                              Batch* batch) const {
  const auto samples = static_cast<int64_t>(indexes.size());
  Resize(samples, batch);
  batch->error = absl::OkStatus();
  for (int64_t place = 0; place < samples && batch->error.ok(); ++place) {
    batch->error = CopySample(
        {indexes[static_cast<size_t>(place)], /*held_out=*/false, epoch}, place,
        batch);
  }
}

void SampleDataSet::ReadEvaluation(int64_t begin, int64_t end,
                                   Batch* batch) const {
  Resize(end - begin, batch);
  batch->error = absl::OkStatus();
  for (int64_t index = begin; index < end && batch->error.ok(); ++index) {
    batch->error = CopySample({index, /*held_out=*/true}, index - begin, batch);
  }
}

void SampleDataSet::ResizeKeys(size_t features, int64_t samples, Batch* batch) {
  batch->feature_keys.resize(features);
  for (FeatureKeys& feature : batch->feature_keys) {
    feature.keys.clear();
    feature.ends.clear();
    feature.keys.reserve(static_cast<size_t>(samples));
    feature.ends.reserve(static_cast<size_t>(samples));
  }
}

void SampleDataSet::AppendKeys(const KeyTable& table, int64_t row,
                               Batch* batch) {
  for (size_t i = 0; i < batch->feature_keys.size(); ++i) {
    FeatureKeys& feature = batch->feature_keys[i];
    const absl::Span<const uint64_t> keys = table.Keys(row, i);
    feature.keys.insert(feature.keys.end(), keys.begin(), keys.end());
    feature.ends.push_back(static_cast<int64_t>(feature.keys.size()));
  }
}

}  // namespace tributary
