// The calls of a Network in evaluation mode.
#include <cstddef>

#include "worker/nn/network.h"

namespace tributary {

absl::StatusOr<LossSums> Network::Evaluate(const MicroBatchInput& micro_batch,
                                           const float* weights) {
  if (micro_batch.samples == 0) return LossSums();
  BeginCall();
  CopyIn(micro_batch);
  const LayerCall call = CallOf(micro_batch.samples, /*training=*/false);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) Forward(i, call, weights);
  LossSpec loss = graph_.loss();
  loss.smoothing = 0;
  BeginLoss(loss, micro_batch.samples, plan_.evaluation_loss_input,
            /*gradient=*/nullptr);
  return AwaitLoss();
}

const Real* Network::Predict(int64_t samples, const void* input,
                             const float* weights) {
  BeginCall();
  CopyIn({samples, input});
  const LayerCall call = CallOf(samples, /*training=*/false);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) Forward(i, call, weights);
  return RealAt(plan_.evaluation_loss_input);
}

std::vector<std::string> Network::LayerNames() const {
  std::vector<std::string> names;
  for (const Graph::Node& node : graph_.nodes()) names.push_back(node.name);
  return names;
}

}  // namespace tributary
