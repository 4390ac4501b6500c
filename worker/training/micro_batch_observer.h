// Ties one leaf's computation to the exchange: waits for its weights, hands its
// gradients on chunk by chunk.
#ifndef TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_
#define TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_

#include <cstdint>
#include <functional>

#include "common/base/buffer_pool.h"
#include "common/parameters/parameter_table.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/nn/step_observer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_timer.h"
#include "worker/training/device_arenas.h"
#include "worker/training/device_sums.h"

namespace tributary {

// Brings elements [begin, end) of the task's weights, which are there, to the
// device. They must not change until it is synchronized.
void LoadWeights(const WorkState& state, const Task& task,
                 const ArenaLayout& layout, int64_t begin, int64_t end,
                 DeviceArenas* device);

// On the computing thread, like every StepObserver. Where a device computes in
// memory of its own, the host runs ahead of it in backward: chunks are handed
// on when they have come from there, most of them in Finish.
class MicroBatchObserver final : public StepObserver {
 public:
  struct MicroBatch {
    const Task* task = nullptr;
    int number = 0;
    int64_t sample_count = 0;  // Samples (tokens).
    // Its gradients on the host, or those of the sum that it completes; null
    // where it completes none.
    Buffer arena;
    // Where the model computes, and its gradients are added up; both null: in
    // `arena`.
    DeviceArenas* device = nullptr;
    DeviceSums* sums = nullptr;
    // What to do in DeviceBusy. May be null.
    std::function<void()> device_busy;
  };
  // All must outlive this object.
  MicroBatchObserver(const MicroBatch& micro_batch, const ArenaLayout* layout,
                     WorkState* state, SubtreeReducer* reducer,
                     ComputeThreadTimer* timer);

  bool WeightsNeeded(int64_t begin, int64_t end) override;
  void DeviceBusy() override {
    if (micro_batch_.device_busy) micro_batch_.device_busy();
  }
  void ForwardDone() override { timer_->Switch(Activity::kBackward); }
  // Chunk 0 waits for Finish: it carries the leaf's loss.
  void GradientsReady(int64_t begin) override;

  // Hands on what is left. To be called once, after ForwardBackward.
  void Finish(double loss_sum);

 private:
  // Where a device computes: adds up the chunks from `first` on, and sends what
  // that completes on its way to the host.
  void AddUp(int first);
  // The last chunk that has not been handed on.
  void HandOn(double loss_sum);

  MicroBatch micro_batch_;
  const ArenaLayout* const layout_;
  WorkState* const state_;
  SubtreeReducer* const reducer_;
  ComputeThreadTimer* const timer_;
  int last_chunk_;  // Those above it have been handed on.
  int last_added_;  // From there on, AddUp has been called.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_
