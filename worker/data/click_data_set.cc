#include "worker/data/click_data_set.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/base/status_macros.h"
#include "worker/data/clicks/criteo_files.h"
#include "worker/data/clicks/generated_clicks.h"
#include "worker/data/formats/criteo_format.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<ClickDataSet>> ClickDataSet::Open(
    const JobSpec& job) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      FeatureReader reader,
      FeatureReader::Create(job.sparse(), FindCriteoColumn));
  DataInfo info;
  info.kind = DataInfo::Kind::kRows;
  info.sample_shape = {kCriteoNumbers};
  info.classes = 2;
  info.vector_dims = reader.dims();
  info.vector_names = reader.names();
  std::unique_ptr<ClickSource> source;
  if (job.data().has_criteo()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        source, CriteoFiles::Open(job.data().criteo(), std::move(reader)));
  } else {
    source = std::make_unique<GeneratedClicks>(job.data().clicks(),
                                               std::move(reader));
  }
  return std::unique_ptr<ClickDataSet>(
      new ClickDataSet(std::move(source), std::move(info)));
}

ClickDataSet::ClickDataSet(std::unique_ptr<ClickSource> source, DataInfo info)
    : source_(std::move(source)), info_(std::move(info)) {}

void ClickDataSet::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->features.resize(static_cast<size_t>(samples * kCriteoNumbers));
  batch->labels.resize(static_cast<size_t>(samples));
  batch->values.clear();
  batch->tokens.clear();
  ResizeKeys(info_.vector_dims.size(), samples, batch);
}

absl::Status ClickDataSet::CopySample(const Sample& sample, int64_t place,
                                      Batch* batch) const {
  absl::InlinedVector<std::vector<uint64_t>*, kCriteoColumns> keys;
  for (FeatureKeys& feature : batch->feature_keys) {
    keys.push_back(&feature.keys);
  }
  source_->Read(sample.held_out, sample.index,
                batch->features.data() + place * kCriteoNumbers,
                batch->labels.data() + place, absl::MakeConstSpan(keys));
  for (FeatureKeys& feature : batch->feature_keys) {
    feature.ends.push_back(static_cast<int64_t>(feature.keys.size()));
  }
  return absl::OkStatus();
}

}  // namespace tributary
