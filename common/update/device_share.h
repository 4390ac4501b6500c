// Memory of a server's GPU that workers on the same host map.
#ifndef TRIBUTARY_COMMON_UPDATE_DEVICE_SHARE_H_
#define TRIBUTARY_COMMON_UPDATE_DEVICE_SHARE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/base/device_memory_handle.h"
#include "common/update/aggregation/gradient_source.h"

namespace tributary {

// The memory of the device that runs the passes, for workers that compute on
// the same device or on one that can access its memory. The server owns all of
// this memory, even the gradients that workers write: passes can therefore
// still read the gradients of a worker that was killed. Thread-safe.
class DeviceShare {
 public:
  virtual ~DeviceShare() = default;

  // Returns the memory of the weights: two arenas, each of which has room for
  // all weights of the model (ArenaLayout::arena_elements() floats). Version v
  // is in arena v % 2.
  virtual const DeviceMemoryHandle& weights() const = 0;

  // Device memory into which one worker writes its gradients.
  struct Gradients {
    Buffer memory;
    DeviceMemoryHandle handle;
  };
  // Allocates device memory for `elements` floats of gradients. Returns
  // ResourceExhausted if the device's memory does not suffice. May block for a
  // millisecond.
  virtual absl::StatusOr<Gradients> AllocateGradients(int64_t elements) = 0;

  // Copies device memory to the host. Blocks until the copy is complete.
  // Returns an error if the device has failed.
  virtual absl::Status CopyToHost(const float* from, int64_t elements,
                                  float* to) = 0;
};

// A gradient in the device's memory, which `owner` keeps allocated.
class GradientOnDevice final : public GradientSource {
 public:
  GradientOnDevice(float* values, std::shared_ptr<const void> owner,
                   std::shared_ptr<DeviceShare> share)
      : GradientSource({values, std::move(owner), MemoryPlace::kDevice}),
        share_(std::move(share)) {}

  // Copies the elements to `scratch`, in host memory, and blocks until the copy
  // is complete. Used for the gaps between parameters (see ContributionCheck),
  // and for the whole gradient only to find a nonfinite element. If the device
  // has failed, the contents of `scratch` are unspecified, and the pass reports
  // the failure.
  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    share_->CopyToHost(memory().values + begin, count, scratch).IgnoreError();
    return scratch;
  }

 private:
  const std::shared_ptr<DeviceShare> share_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_DEVICE_SHARE_H_
