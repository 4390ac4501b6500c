// The memory of a server's GPU that workers on the same host map.
#ifndef TRIBUTARY_COMMON_UPDATE_CUDA_PASS_SHARE_H_
#define TRIBUTARY_COMMON_UPDATE_CUDA_PASS_SHARE_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/cuda/stream.h"
#include "common/update/device_share.h"

namespace tributary::cuda {

// A DeviceShare on a GPU: memory that the passes on this GPU share with workers
// on the same host. The passes write the weights there.
class PassShare final : public DeviceShare {
 public:
  // Allocates two arenas, each for a version of the weights with `elements`
  // floats, on GPU `ordinal`. Returns the errors of AllocateSharedMemory.
  static absl::StatusOr<std::shared_ptr<PassShare>> Create(int ordinal,
                                                           int64_t elements);

  // Returns the arena that holds the versions v with v % 2 == `parity`.
  float* arena(int parity) const { return memory_.get() + parity * elements_; }

  const DeviceMemoryHandle& weights() const override { return handle_; }
  absl::StatusOr<Gradients> AllocateGradients(int64_t elements) override;
  absl::Status CopyToHost(const float* from, int64_t elements,
                          float* to) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  PassShare(int64_t elements, std::unique_ptr<Stream> stream)
      : ordinal_(stream->ordinal()),
        elements_(elements),
        stream_(std::move(stream)) {}

  const int ordinal_;
  const int64_t elements_;
  std::shared_ptr<float> memory_;
  DeviceMemoryHandle handle_;

  absl::Mutex mu_;
  const std::unique_ptr<Stream> stream_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_UPDATE_CUDA_PASS_SHARE_H_
