// A data set that copies one sample after the other.
#ifndef TRIBUTARY_WORKER_DATA_SAMPLE_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_SAMPLE_DATA_SET_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/data/formats/key_table.h"

namespace tributary {

// Fills batches sample by sample. If a sample cannot be read, sets Batch::error
// and leaves out the samples after it.
class SampleDataSet : public DataSet {
 public:
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const final;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const final;

 protected:
  struct Sample {
    int64_t index = 0;  // Within the training or the held-out part.
    bool held_out = false;
    int64_t epoch = 0;  // Of a training sample.
  };
  // Resizes the batch to `samples` samples, and empties what they do not have.
  virtual void Resize(int64_t samples, Batch* batch) const = 0;
  // Copies a sample to sample `place` of the batch.
  virtual absl::Status CopySample(const Sample& sample, int64_t place,
                                  Batch* batch) const = 0;

  // Empties the keys of all features, and allocates memory for one key in each
  // sample.
  static void ResizeKeys(size_t features, int64_t samples, Batch* batch);
  // Appends the keys of a row, as those of the next sample.
  static void AppendKeys(const KeyTable& table, int64_t row, Batch* batch);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_SAMPLE_DATA_SET_H_
