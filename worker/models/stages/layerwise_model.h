// Computes a whole model in groups of layers, one group after the other, for
// several micro-batches.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_LAYERWISE_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_LAYERWISE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/stages/stage_model.h"
#include "worker/models/stages/stage_split.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_pass.h"

namespace tributary {

// A model whose layers are divided into groups. Each group reads only the
// weights of its layers. For each micro-batch, which has a slot, the calls are
// Forward for groups 0 to groups() - 2, Turn, and Backward for groups
// groups() - 2 to 0; calls for other slots may come in between. The results
// have the bits of the undivided model.
//
// Works on devices that compute in host memory. Not thread-safe.
class LayerwiseModel {
 public:
  // `build` returns the model's graph, `layout` its layout. All arguments must
  // outlive the model. Returns the errors of `build` and Network::Create.
  static absl::StatusOr<std::unique_ptr<LayerwiseModel>> Create(
      const std::function<absl::StatusOr<Graph>()>& build,
      const ArenaLayout& layout, const DataInfo& info, int64_t max_samples,
      Device* device, bool recompute);

  int groups() const { return static_cast<int>(models_.size()); }
  // What the group reads and contributes. Chunks may be in several groups.
  const StageSplit::Stage& group(int group) const {
    return split_.stages[group];
  }
  // Adds slots until there are at least `count`. Returns ResourceExhausted if
  // memory does not suffice.
  absl::Status AddSlots(int count);
  // Returns the memory for activations with this number of slots, in bytes.
  int64_t ActivationBytes(int slots) const;

  // Forward of a group. `batch` has at least one sample.
  absl::Status Forward(int group, int slot, const Batch& batch,
                       const NetworkPass::MicroBatch& micro_batch);
  // Forward of the last group, the loss, and backward of this group.
  absl::StatusOr<LossSums> Turn(int slot, const Batch& batch,
                                const NetworkPass::MicroBatch& micro_batch);
  // Backward of a group. Must not be called for the last one.
  absl::Status Backward(int group, int slot);

  // Forward of a group in evaluation mode; for the last group, the loss is set.
  absl::Status Evaluate(int group, int slot, const Batch& batch,
                        const float* weights, LossSums* loss);

 private:
  explicit LayerwiseModel(StageSplit split);

  bool IsLast(int group) const { return group + 1 == groups(); }
  // The slot of the group's StageModel: the last group has one.
  int SlotOf(int group, int slot) const { return IsLast(group) ? 0 : slot; }
  absl::Status Begin(int group, int slot, const Batch& batch,
                     const NetworkPass::MicroBatch& micro_batch);
  // Keeps what passes from one group to the next one.
  void Keep(int slot, const std::vector<absl::string_view>& parts);

  const StageSplit split_;
  Device::Memory shared_;  // The memory that all groups but the last one share.
  int64_t shared_bytes_ = 0;
  std::vector<std::unique_ptr<StageModel>> models_;  // By group.
  // By slot: the values, or the gradients, at the boundary that the micro-batch
  // has reached.
  std::vector<std::string> boundary_;
  int slots_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_LAYERWISE_MODEL_H_
