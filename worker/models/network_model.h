// Model over a Network: checks batches and hands them on.
#ifndef TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/models/model.h"
#include "worker/nn/network.h"

namespace tributary {

// Threads and ownership as Model. A batch whose sizes do not fit, or that holds
// a label or token out of range, is an InvalidArgument.
class NetworkModel : public Model {
 public:
  // `info`: of the data the graph was built for. `device` and `copies` are
  // CreateModel's.
  static absl::StatusOr<std::unique_ptr<Model>> Create(Graph graph,
                                                       const DataInfo& info,
                                                       int64_t max_samples,
                                                       Device* device,
                                                       WeightCopies* copies);

  const ParameterTable& table() const override;
  int64_t memory_bytes() const override { return network_->memory_bytes(); }
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const override;
  void Prefetch(std::shared_ptr<const Batch> batch) override;
  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t seed,
                                           int64_t step, int micro_batch,
                                           const float* weights,
                                           float* gradients,
                                           StepObserver* observer) override;
  absl::Status capture_status() const override {
    return network_->capture_status();
  }
  absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                    const float* weights) override;
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               const float* weights,
                               absl::Span<float> logits) override;

 private:
  NetworkModel(std::unique_ptr<Network> network, const DataInfo& info,
               Device* device);

  absl::StatusOr<MicroBatchInput> InputOf(const Batch& batch) const;

  const std::unique_ptr<Network> network_;
  const DataInfo info_;
  Device* const device_;
  // What the network has prefetched, held so that no other batch has its
  // address. Null: nothing that is still of use.
  std::shared_ptr<const Batch> prefetched_;
  std::vector<int32_t> window_;  // Tokens seen by NextTokenLogits.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_NETWORK_MODEL_H_
