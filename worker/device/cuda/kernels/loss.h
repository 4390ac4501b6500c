// Losses; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

struct RowLoss;

// A row's loss is made on the GPU and copied to the host, which adds them up in
// order. One loss at a time.
class LossRunner {
 public:
  template <typename T>
  void SoftmaxCrossEntropy(Stream& stream, int64_t rows, int64_t classes,
                           const T* logits, const int32_t* labels, T* dlogits);
  template <typename T>
  void MeanSquaredError(Stream& stream, int64_t rows, int64_t width, const T* x,
                        const float* target, T* dx);

  // Of the loss above that was queued last and that the stream has done.
  Device::Loss Sum() const;

 private:
  // On the GPU.
  RowLoss* RowLosses(int64_t rows);
  // Queues their copy to the host.
  void Collect(Stream& stream, int64_t rows);

  int64_t rows_ = 0;
  const RowLoss* losses_ = nullptr;  // Of the rows, in host_.
  Scratch device_{Scratch::Place::kDevice};
  Scratch host_{Scratch::Place::kPinnedHost};
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_
