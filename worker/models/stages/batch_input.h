// Conversion of a batch of samples to the input of a network.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_BATCH_INPUT_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_BATCH_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/nn/device_inputs.h"
#include "worker/nn/graph.h"

namespace tributary {

// Checks batches, and converts them to inputs of a network for data of one
// kind. The methods return InvalidArgument for a batch of the wrong size, or
// with a label or token out of range. The results refer to the batch and, until
// the next call, to this object. Not thread-safe.
class BatchInput {
 public:
  // `info` describes the data that `graph` was built for. `graph` must outlive
  // this object. Batches have at most `max_samples` samples.
  BatchInput(const Graph* graph, const DataInfo& info, int64_t max_samples)
      : graph_(*graph), info_(info), max_samples_(max_samples) {}

  const DataInfo& info() const { return info_; }
  // Converts the samples, but not the targets.
  absl::StatusOr<MicroBatchInput> FeaturesOf(const Batch& batch);
  // Converts the samples and the targets.
  absl::StatusOr<MicroBatchInput> InputOf(const Batch& batch);

 private:
  // Checks the sequences of the batch and writes them to sequences_, in the
  // format of SequenceInput.
  absl::Status PackSequences(const Batch& batch);

  const Graph& graph_;
  const DataInfo info_;
  const int64_t max_samples_;
  std::vector<int32_t> sequences_;  // A SequenceInput.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_BATCH_INPUT_H_
