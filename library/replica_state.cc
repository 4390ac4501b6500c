#include "library/replica_state.h"

#include <cstddef>
#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

void AddNodeGradient(ReplicaOutput::NodeGradient node,
                     std::vector<ReplicaOutput::NodeGradient>* nodes) {
  while (!nodes->empty() && node.node % 2 == 1 &&
         nodes->back().node == node.node - 1) {
    ReplicaOutput::NodeGradient left = std::move(nodes->back());
    nodes->pop_back();
    for (size_t i = 0; i < left.sum.size(); ++i) left.sum[i] += node.sum[i];
    left.node = node.node / 2;
    node = std::move(left);
  }
  nodes->push_back(std::move(node));
}

absl::Status ReplicaState::Train(const NumberedBatch& item,
                                 const ApplyOptions& options,
                                 ReplicaOutput* output) {
  GradientSink sink(static_cast<float*>(gradient.get()), item.batch.samples);
  MicroBatchInput input;
  input.samples = item.batch.samples;
  input.input = item.batch.input;
  input.target = item.batch.target;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const LossSums sums,
      network->ForwardBackward(input, options.seed, options.step, item.number,
                               WeightsView(weights), &sink,
                               /*observer=*/nullptr));
  output->losses.push_back(sums.loss);
  output->correct += sums.correct;
  output->sample_count += sums.sample_count;
  ReplicaOutput::NodeGradient node;
  node.node = output->micro_batches + item.number;
  node.sum.resize(static_cast<size_t>(layout->arena_elements()));
  TRIBUTARY_RETURN_IF_ERROR(device->CopyToHost(
      node.sum.data(), gradient.get(), static_cast<size_t>(arena_bytes())));
  AddNodeGradient(std::move(node), &output->gradients);
  return absl::OkStatus();
}

absl::Status ReplicaState::Compute(const NumberedBatch& item,
                                   const ApplyOptions& options,
                                   ReplicaOutput* output) {
  if (options.backward) return Train(item, options, output);
  if (item.batch.samples == 0) return absl::OkStatus();
  MicroBatchInput input;
  input.samples = item.batch.samples;
  input.input = item.batch.input;
  input.target = item.batch.target;
  if (input.target != nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums,
                               network->Evaluate(input, weights));
    output->losses.push_back(sums.loss);
    output->correct += sums.correct;
    output->sample_count += sums.sample_count;
    return absl::OkStatus();
  }
  const Real* const predicted = network->Predict(input, weights);
  const size_t before = output->predictions.size();
  const size_t count =
      static_cast<size_t>(item.batch.samples * prediction_elements);
  output->predictions.resize(before + count);
  output->sample_count += item.batch.samples;
  return device->CopyToHost(output->predictions.data() + before, predicted,
                            count * sizeof(float));
}

}  // namespace tributary
