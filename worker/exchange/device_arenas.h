// A compute thread's weights and gradients in device memory, and their
// transfers from and to the memory where the exchange works: host memory, or
// the memory of the server's GPU.
#ifndef TRIBUTARY_WORKER_EXCHANGE_DEVICE_ARENAS_H_
#define TRIBUTARY_WORKER_EXCHANGE_DEVICE_ARENAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/memory_view.h"
#include "worker/device/device.h"

namespace tributary {

// Holds one arena of weights and one of gradients in device memory. An arena is
// a buffer for the whole model, divided into chunks. Each direction of transfer
// has its own copy stream, so that transfers overlap with computation: weights
// arrive while the first layers compute, and gradients leave while backward
// proceeds. Host arenas should be pinned (see Copies::PinHostMemory); otherwise
// the host takes part in the copies.
//
// After UseDeviceArenas, the arenas that comments call "host arenas" are in
// device memory, too.
//
// Not thread-safe.
class DeviceArenas {
 public:
  // Maximum size in bytes of a copy of several chunks between this object and
  // the exchange. All chunks of a copy become available when its last chunk
  // does, so an unbounded copy of a large layer would delay the other chunks by
  // milliseconds. A copy of this size takes about 0.3 ms over PCIe, and
  // starting it 0.01 ms.
  static constexpr int64_t kMaximumCopyBytes = int64_t{16} << 20;

  // Requires that `device` has its own memory. `device` and `layout` must
  // outlive this object. Returns ResourceExhausted when device memory is full.
  static absl::StatusOr<std::unique_ptr<DeviceArenas>> Create(
      Device* device, const ArenaLayout* layout);
  // Blocks until all transfers and operations are complete.
  ~DeviceArenas();
  DeviceArenas(const DeviceArenas&) = delete;
  DeviceArenas& operator=(const DeviceArenas&) = delete;

  // Declares that the arenas that Load reads and Save writes are in the
  // device's memory, too. Copies are then queued with the device's other
  // operations, not on the copy streams. Must be called before Load and Save.
  void UseDeviceArenas() { on_device_ = true; }

  // Arenas in device memory, each of layout.arena_elements() elements.
  float* weights() const { return static_cast<float*>(weights_.get()); }
  float* gradients() const { return static_cast<float*>(gradients_.get()); }

  // Identifies the values of a chunk of weights: two copies of a chunk with
  // equal Versions have equal bytes. `step` is the version of the task's
  // weights, and `base` is WorkState::BaseVersion of the chunk.
  struct Version {
    int64_t step = -1;
    int64_t base = -1;
  };
  // Queues copies of the chunks [first, first + versions.size()) from the arena
  // `from`, which is in `place`, to weights(). `versions` lists the versions of
  // these chunks in `from`. Copies only the chunks that weights() does not hold
  // in these versions, with one copy for each run of adjacent ones. Operations
  // queued from now on run after the copies; operations queued before must not
  // read the chunks. The chunks must not change in `from` until Synchronize.
  void Load(int first, absl::Span<const Version> versions, const float* from,
            MemoryPlace place = MemoryPlace::kHost);
  // Queues a copy of all chunks from the arena `host` to weights(), even if
  // weights() already holds them. Discards the recorded versions, so that the
  // next Load of each chunk copies it again. Operations queued from now on run
  // after the copy; operations queued before must not read the chunks. The
  // chunks must not change in `host` until Synchronize.
  void LoadAll(const float* host);

  // Queues copies of the chunks [first, last) from `from`, an arena in device
  // memory such as gradients(), to the arena `to`, which is in `place`. Makes
  // as few copies of up to kMaximumCopyBytes as possible, last chunks first. A
  // chunk that is larger is one copy. The copies include the effect of all
  // operations queued so far.
  void Save(int first, int last, const float* from, float* to,
            MemoryPlace place = MemoryPlace::kHost);
  // Returns true if Save has finished copying the chunk. Returns an error if
  // the copy, or an operation before it, has failed; the chunk at its
  // destination is then undefined.
  absl::StatusOr<bool> Saved(int chunk);
  // Blocks until Save has finished copying the chunk. Returns the errors of
  // Saved.
  absl::Status AwaitSaved(int chunk);

  // Blocks until all transfers and operations are complete. Returns the
  // device's error if any of them failed.
  absl::Status Synchronize();

 private:
  // A copy that Save has queued.
  struct SavedCopy {
    std::unique_ptr<Event> end;
    bool ended = false;  // True if `end` is known to have been reached.
  };

  DeviceArenas(Device* device, const ArenaLayout* layout,
               Device::Memory weights, Device::Memory gradients);
  absl::Status CreateQueues();
  // Sets the recorded version of a chunk, without copying its weights. Returns
  // true if it differs from the version recorded before, so that the caller
  // must copy the weights.
  bool Replace(int chunk, const Version& version);
  // Queues a copy of chunks [first, last) to weights().
  void Copy(int first, int last, const float* from, MemoryPlace place);
  // Queues one copy of chunks [first, last) to `to`.
  void SaveInOneCopy(int first, int last, const float* from, float* to,
                     MemoryPlace place);
  size_t BytesOf(int first, int last) const;

  // Queues a copy within the device's memory, in order with the device's other
  // operations.
  void CopyOnDevice(const float* from, size_t bytes, float* to);

  Device* const device_;
  const ArenaLayout* const layout_;
  const Device::Memory weights_;
  const Device::Memory gradients_;
  bool on_device_ = false;
  std::unique_ptr<CopyStream> loads_;
  std::unique_ptr<CopyStream> saves_;
  std::unique_ptr<Event> loaded_;
  std::unique_ptr<Event> computed_;
  std::vector<Version> versions_;  // Versions of the chunks in weights_.
  // Indexed by chunk: the number of the copy that saves the chunk. A copy has
  // the number of its first chunk.
  std::vector<int> copy_of_;
  std::vector<SavedCopy> saved_;  // Indexed by number of the copy.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_DEVICE_ARENAS_H_
