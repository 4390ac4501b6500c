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

}  // namespace tributary
