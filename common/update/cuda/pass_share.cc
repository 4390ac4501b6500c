#include "common/update/cuda/pass_share.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "common/base/status_macros.h"
#include "common/cuda/ipc_memory.h"

namespace tributary::cuda {

absl::StatusOr<std::shared_ptr<PassShare>> PassShare::Create(int ordinal,
                                                             int64_t elements) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  std::shared_ptr<PassShare> share(new PassShare(elements, std::move(stream)));
  TRIBUTARY_ASSIGN_OR_RETURN(
      share->memory_,
      AllocateSharedMemory(ordinal, 2 * elements * int64_t{sizeof(float)},
                           &share->handle_));
  return share;
}

absl::StatusOr<DeviceShare::Gradients> PassShare::AllocateGradients(
    int64_t elements) {
  Gradients gradients;
  TRIBUTARY_ASSIGN_OR_RETURN(
      gradients.memory,
      AllocateSharedMemory(ordinal_, elements * int64_t{sizeof(float)},
                           &gradients.handle));
  return gradients;
}

absl::Status PassShare::CopyToHost(const float* from, int64_t elements,
                                   float* to) {
  absl::MutexLock lock(&mu_);
  stream_->Activate();
  stream_->Enqueue("copying from the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(to, from,
                           static_cast<size_t>(elements) * sizeof(float),
                           cudaMemcpyDeviceToHost, queue);
  });
  return stream_->Wait();
}

}  // namespace tributary::cuda
