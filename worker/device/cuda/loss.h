// Losses; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LOSS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LOSS_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/bfloat16.h"
#include "worker/device/cuda/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

struct RowLoss;

// Each waits for the stream. A row's loss is made on the GPU; the host adds
// them up in order.
class LossRunner {
 public:
  template <typename T>
  Device::Loss SoftmaxCrossEntropy(Stream& stream, int64_t rows,
                                   int64_t classes, const T* logits,
                                   const int32_t* labels, T* dlogits);
  template <typename T>
  Device::Loss MeanSquaredError(Stream& stream, int64_t rows, int64_t width,
                                const T* x, const float* target, T* dx);

 private:
  // `rows` of each: on the GPU and, after Collect, on the host.
  RowLoss* RowLosses(int64_t rows);
  Device::Loss Collect(Stream& stream, int64_t rows);

  Scratch device_{Scratch::Place::kDevice};
  Scratch host_{Scratch::Place::kPinnedHost};
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LOSS_H_
