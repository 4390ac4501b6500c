// State that the operations of one CUDA device share.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_CONTEXT_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"
#include "worker/device/ops/real.h"

namespace tributary::cuda {

// The state that the operations of one CUDA device share: the stream on which
// they are queued, their working memory, and the offset of their random streams
// (see Device::SetRandomBase). Not thread-safe, but different threads may use
// it one after the other.
class CudaContext {
 public:
  // Creates the context of GPU number `ordinal`, which must exist. Returns
  // ResourceExhausted if the GPU's memory is full.
  static absl::StatusOr<std::unique_ptr<CudaContext>> Create(int ordinal);

  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  int ordinal() const { return stream_->ordinal(); }
  // Returns the stream, and makes its GPU the calling thread's current CUDA
  // device. Operations call this each time, because the thread that uses this
  // object may have changed.
  Stream& Current() {
    stream_->Activate();
    return *stream_;
  }

  // Returns the working memory of operations. All operations use the same
  // memory, because they run one after the other on the stream.
  Scratch& scratch() { return scratch_; }
  // Returns how often the working memory of operations has grown. This includes
  // the memory that groups of operations, such as LossOps, own themselves.
  // While the number is unchanged, no working memory has moved, so captured
  // operations (CUDA graphs), which contain its addresses, can be launched.
  int64_t growths() const { return growths_; }
  int64_t* growths_counter() { return &growths_; }

  // Returns the address, in GPU memory, of the offset that kernels add to their
  // random streams (see Device::SetRandomBase). Kernels read the offset when
  // they run.
  const RandomBase* random_base() const {
    return static_cast<const RandomBase*>(random_base_.get());
  }
  void SetRandomBase(const RandomBase& base);

 private:
  explicit CudaContext(std::unique_ptr<Stream> stream);

  const std::unique_ptr<Stream> stream_;
  int64_t growths_ = 0;
  Scratch scratch_;
  Device::Memory random_base_{nullptr, nullptr};
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_CONTEXT_H_
