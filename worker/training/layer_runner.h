// Computes micro-batches layer by layer, with few layers' weights at a time.
#ifndef TRIBUTARY_WORKER_TRAINING_LAYER_RUNNER_H_
#define TRIBUTARY_WORKER_TRAINING_LAYER_RUNNER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "worker/exchange/leaf_gradients.h"
#include "worker/exchange/task_weights.h"
#include "worker/models/stages/layerwise_model.h"
#include "worker/training/task_runner.h"

namespace tributary {

// The most memory, in bytes, that a worker needs at a time.
struct LayerMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t activations = 0;
};

// Computes all micro-batches of a task through a group of layers before it
// turns to the next group. Fetches the weights of a group while the group
// before it computes, and frees them afterwards, so a step receives each weight
// twice (once for the groups at both ends), however many micro-batches there
// are. Frees the memory of gradients when they have been sent, and waits for
// this before it computes many more.
class LayerRunner final : public TaskRunner {
 public:
  // The exchange must have a ChunkMemory. `model` must outlive this object.
  LayerRunner(const Tools& tools, LayerwiseModel* model);

  absl::Status Initialize() override;
  absl::Status Train(const Task& task, StepGradients* step) override;
  absl::Status Evaluate(const Task& task) override;

  MemoryAccount Memory(int micro_batches, bool shares_memory) const override;

  // Returns the memory that a step of `micro_batches` micro-batches needs.
  static LayerMemory MemoryFor(const LayerwiseModel& model,
                               const ArenaLayout& layout, int micro_batches);

 private:
  // A micro-batch of the task.
  struct Item {
    int number = 0;
    int slot = 0;  // Unused without samples.
    int64_t samples = 0;
    int64_t sample_count = 0;
    double loss_sum = 0;
    std::shared_ptr<const Batch> batch;  // Null without samples.
    std::unique_ptr<LeafGradients> gradients;
  };
  // Frees the weights when a task ends, however it ends.
  class Holding;

  absl::Status Begin(const Task& task, StepGradients* step,
                     std::vector<Item>* items);
  absl::Status ForwardItem(const Task& task, int group,
                           const TaskWeights& weights, Item* item);
  absl::Status BackwardItem(int group, Item* item);
  absl::Status EvaluatePieces(const Task& task,
                              const std::vector<int64_t>& pieces);
  // Waits until most gradients have been sent.
  absl::Status AwaitSent(const Task& task, int64_t most) const;
  NetworkPass::MicroBatch MicroBatchOf(const Task& task, const Item& item,
                                       const TaskWeights& weights) const;

  const Tools tools_;
  LayerwiseModel& model_;
  ChunkMemory& memory_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_LAYER_RUNNER_H_
