// Connects the computation of one micro-batch to the exchange.
#ifndef TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_
#define TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_

#include <cstdint>
#include <functional>

#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/nn/step_observer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_timer.h"
#include "worker/training/device_arenas.h"
#include "worker/training/device_sums.h"

namespace tributary {

// Copies elements [begin, end) of the task's weights, which must be available,
// to the device: from `on_device` (see Exchange::DeviceWeights), or from the
// host if `on_device` is null. The source must not change until the device is
// synchronized.
void LoadWeights(const WorkState& state, const Task& task,
                 const ArenaLayout& layout, int64_t begin, int64_t end,
                 const float* on_device, DeviceArenas* device);

// Waits for the weights of one micro-batch and passes its gradients to the
// reducer chunk by chunk. Runs on the compute thread, like every StepObserver.
// On a device with its own memory the host runs ahead of backward, so a chunk
// is passed on once its copy to an arena (a gradient buffer) of the exchange is
// complete. Most chunks are passed on in Finish.
class MicroBatchObserver final : public StepObserver {
 public:
  struct MicroBatch {
    const Task* task = nullptr;
    int number = 0;
    int64_t sample_count = 0;  // For texts: number of tokens.
    // If `sums` is null, the arena for the micro-batch's gradients. Otherwise,
    // the arena for the sum that the micro-batch completes, or null if it
    // completes none.
    Buffer arena;
    // The memory that `arena` is in. kDevice is possible only if
    // Exchange::on_device is true.
    DeviceArenas::Memory memory = DeviceArenas::Memory::kHost;
    // `on_device` is the result of Exchange::on_device, and `device_weights`
    // that of Exchange::DeviceWeights for the task's version.
    bool on_device = false;
    const float* device_weights = nullptr;
    // True if the network reads `device_weights` itself. Otherwise the weights
    // are copied to `device` first.
    bool reads_in_place = false;
    // `device` holds the compute thread's arenas in device memory, and `sums`
    // adds up gradients there. Both are null if the model computes in `arena`.
    DeviceArenas* device = nullptr;
    DeviceSums* sums = nullptr;
    // The object that layers() returns. May be null.
    LayerObserver* layers = nullptr;
    // Called by DeviceBusy: the whole micro-batch has been queued, and the
    // compute thread is about to wait for it. May be null.
    std::function<void()> device_busy;
  };
  // All arguments must outlive this object.
  MicroBatchObserver(const MicroBatch& micro_batch, const ArenaLayout* layout,
                     WorkState* state, SubtreeReducer* reducer,
                     ComputeThreadTimer* timer);

  // Returns the arena from which the network reads weights, once WeightsNeeded
  // has returned true for them.
  const float* weights() const;

  bool WeightsNeeded(int64_t begin, int64_t end) override;
  LayerObserver* layers() override { return micro_batch_.layers; }
  void DeviceBusy() override {
    if (micro_batch_.device_busy) micro_batch_.device_busy();
  }
  // Replaces MicroBatch::sample_count.
  void SetSampleCount(int64_t sample_count) override {
    micro_batch_.sample_count = sample_count;
    if (micro_batch_.sums != nullptr) {
      micro_batch_.sums->SetSampleCount(sample_count);
    }
  }
  void ForwardDone() override { timer_->Switch(Activity::kBackward); }
  // Passes to the reducer the chunks whose gradients are final and, on a device
  // with its own memory, have been copied to the exchange's arena. Leaves chunk
  // 0 to Finish, because chunk 0 carries the loss.
  void GradientsReady(int64_t begin) override;

  // Passes to the reducer the chunks that GradientsReady has not passed on.
  // Must be called once, after ForwardBackward. Returns the device's error if
  // it has failed; chunks that the device has not computed are never passed on.
  absl::Status Finish(double loss_sum);

 private:
  // Copies elements [begin, end) of the weights to the device, each piece as
  // soon as it is available. Returns false if the micro-batch must be given up.
  bool LoadAsTheyArrive(int64_t begin, int64_t end);
  // Queues the additions of the gradients of chunks [first, last_added_) to the
  // sums in device memory, and starts to copy completed sums to the exchange's
  // arena. Requires a device with its own memory.
  void AddUp(int first);
  // Passes chunk last_chunk_ to the reducer. `loss_sum` must be 0 except for
  // chunk 0.
  void HandOn(double loss_sum);

  MicroBatch micro_batch_;
  const ArenaLayout* const layout_;
  WorkState* const state_;
  SubtreeReducer* const reducer_;
  ComputeThreadTimer* const timer_;
  int last_chunk_;  // The last chunk not passed on yet; -1 if there is none.
  int last_added_;  // AddUp has covered this chunk and all later ones.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_OBSERVER_H_
