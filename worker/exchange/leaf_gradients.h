// Passes the gradients of one micro-batch on while backward computes them.
#ifndef TRIBUTARY_WORKER_EXCHANGE_LEAF_GRADIENTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_LEAF_GRADIENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/loss_sum.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/memory_view.h"
#include "worker/exchange/device_arenas.h"
#include "worker/exchange/device_sums.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/step_gradients.h"
#include "worker/nn/gradient_sink.h"

namespace tributary {

// The gradients of one micro-batch, a leaf of the reduction tree. Passes each
// chunk to the StepGradients of the step once it is final. Used by the compute
// thread.
//
// On a device with its own memory the host runs ahead of backward, so a chunk
// is passed on once its copy to an arena (a gradient buffer) of the exchange is
// complete. Most chunks are passed on in Finish.
class LeafGradients final : public GradientSink {
 public:
  // Takes an arena of the exchange, unless the micro-batch completes no sum in
  // the device's memory. `device` holds the compute thread's arenas in device
  // memory, and `sums` adds up gradients there. Both are null if the model
  // computes in the exchange's arenas. Passes on the chunks [begin_chunk,
  // end_chunk), which may be none; -1 stands for the number of chunks. All
  // arguments must outlive this object.
  LeafGradients(int micro_batch, int64_t sample_count, Exchange* exchange,
                StepGradients* step, DeviceArenas* device, DeviceSums* sums,
                int64_t begin_chunk = 0, int64_t end_chunk = -1);

  // Sets what VectorGradients returns.
  void SetVectorGradients(float* gradients) { vector_gradients_ = gradients; }

  float* VectorGradients() override { return vector_gradients_; }
  void SetSampleCount(int64_t sample_count) override;
  absl::Status SetLearningRate(double rate) override;
  // Passes on the chunks whose gradients are final and, on a device with its
  // own memory, have been copied to the exchange's arena. Leaves the first
  // chunk to Finish, because chunk 0 carries the loss.
  void Ready(int64_t begin) override;
  // Passes on the chunks that Ready has not passed on. Must be called once,
  // after backward. Returns the device's error if it has failed; chunks that
  // the device has not computed are never passed on.
  absl::Status Finish(LossSum loss_sum);

 private:
  // Queues the additions of the gradients of chunks [first, last_added_) to the
  // sums in device memory, and starts to copy completed sums to the exchange's
  // arena. Requires a device with its own memory.
  void AddUp(int first);
  // Passes chunk last_chunk_ on, and with chunk 0 the loss.
  void HandOn(LossSum loss_sum);

  const int micro_batch_;
  const ArenaLayout& layout_;
  const int first_chunk_;
  StepGradients* const step_;
  ChunkMemory* const chunk_memory_;  // Null: the arena is freed as a whole.
  DeviceArenas* const device_;
  DeviceSums* const sums_;
  // The arena for the micro-batch's gradients or, with a device, for the sum
  // that the micro-batch completes; null if it completes none.
  Buffer arena_;
  MemoryPlace place_ = MemoryPlace::kHost;  // Of arena_.
  int last_chunk_;  // The last chunk not passed on; below first_chunk_: none.
  float* vector_gradients_ = nullptr;
  int last_added_;  // AddUp has covered this chunk and all later ones.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_LEAF_GRADIENTS_H_
