// Implementation of Model by a Network.
#ifndef TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/models/model.h"
#include "worker/models/stages/batch_input.h"
#include "worker/nn/network.h"

namespace tributary {

// A Model that validates batches and computes them with a Network. Methods
// return InvalidArgument for a batch of the wrong size, or with a label or
// token out of range. See Model for thread safety and ownership.
class NetworkModel : public Model {
 public:
  // `info` describes the data that the graph was built for. See CreateModel for
  // `device`, `copies` and `part`. Returns the errors of Network::Create.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      Graph graph, const DataInfo& info, int64_t max_samples, Device* device,
      WeightCopies* copies, const NetworkPart& part);

  const ParameterTable& table() const override;
  int64_t memory_bytes() const override { return network_->memory_bytes(); }
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const override;
  void Prefetch(std::shared_ptr<const Batch> batch) override;
  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t seed,
                                           int64_t step, int micro_batch,
                                           const WeightsView& weights,
                                           GradientSink* gradients,
                                           StepObserver* observer) override;
  absl::Status capture_status() const override {
    return network_->capture_status();
  }
  std::vector<std::string> LayerNames() const override {
    return network_->LayerNames();
  }
  absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                    const float* weights) override;
  ModelOutputs outputs() const override;
  absl::Status Predict(const Batch& batch, const float* weights,
                       std::vector<float>* outputs) override;
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               const float* weights,
                               absl::Span<float> logits) override;

 private:
  NetworkModel(std::unique_ptr<Network> network, const DataInfo& info,
               Device* device);

  const std::unique_ptr<Network> network_;
  Device* const device_;
  BatchInput input_;
  // The batch that the network has prefetched, or null if none is usable. The
  // address of a batch identifies it; holding a reference ensures that no new
  // batch is created at the same address.
  std::shared_ptr<const Batch> prefetched_;
  std::vector<int32_t> window_;  // Input of NextTokenLogits.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_
