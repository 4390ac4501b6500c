// Losses; formulas and shapes as in worker/device/ops/loss_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/ops/loss_ops.h"

namespace tributary::cuda {

struct RowLoss;

// Computes the loss of each row on the GPU and copies the losses to the host,
// which adds them in the order of the rows. Holds the losses of one call at a
// time: the next call overwrites them.
class LossRunner {
 public:
  // This object increments `*growths` whenever its working memory grows (see
  // CudaContext::growths).
  LossRunner(Stream* stream, int64_t* growths)
      : device_(stream, growths),
        host_(stream, growths, Scratch::Place::kPinnedHost) {}

  template <typename T>
  void SoftmaxCrossEntropy(Stream& stream, int64_t rows, int64_t classes,
                           const T* logits, const int32_t* labels, T* dlogits,
                           float smoothing, int64_t padding);
  template <typename T>
  void MeanSquaredError(Stream& stream, int64_t rows, int64_t width, const T* x,
                        const float* target, T* dx);
  template <typename T>
  void BinaryCrossEntropy(Stream& stream, int64_t rows, const T* logits,
                          const int32_t* labels, T* dlogits);

  // Returns the sum of the row losses of the last call. The stream must have
  // completed the operations of that call.
  Loss Sum() const;

 private:
  // Returns GPU memory for the losses of `rows` rows.
  RowLoss* RowLosses(int64_t rows);
  // Queues the copy of the losses to the host.
  void Collect(Stream& stream, int64_t rows);

  int64_t rows_ = 0;
  const RowLoss* losses_ = nullptr;  // Losses of the rows, in host_.
  Scratch device_;
  Scratch host_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_LOSS_H_
