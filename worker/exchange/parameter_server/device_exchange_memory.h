// The memory of the server's GPU to which a worker writes its gradients and
// from which it reads the weights.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_DEVICE_EXCHANGE_MEMORY_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_DEVICE_EXCHANGE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/base/device_memory_handle.h"
#include "common/parameters/memory_view.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// GPU memory of a server, mapped for the worker's GPU.
struct MappedDeviceMemory {
  // The mapping ends when the last reference is released.
  std::shared_ptr<float> memory;
  // True if the memory belongs to the worker's GPU. False if that GPU accesses
  // the memory of a different GPU, which is slower.
  bool local = false;
};

// Maps GPU memory of another process; see Copies::MapMemory.
using MapDeviceMemory = std::function<absl::StatusOr<MappedDeviceMemory>(
    const DeviceMemoryHandle& handle)>;

// The arenas for weights and gradients in the memory of one server's GPU,
// mapped into this process. An arena holds the weights, or the gradients, of
// the whole model. Buffers that Take has returned keep the mapping alive.
// Thread-safe.
class DeviceExchangeMemory {
 public:
  // Maps the memory that `welcome` offers, for arenas of `arena_elements`
  // floats each. Returns FailedPrecondition, with the reason, if `welcome`
  // offers no memory or memory of the wrong size, and the errors of `map`.
  static absl::StatusOr<std::shared_ptr<DeviceExchangeMemory>> Map(
      const Welcome& welcome, int64_t arena_elements,
      const MapDeviceMemory& map);

  // Returns a gradient arena that is not in use, or null if there is none.
  Buffer Take();
  // Returns the position of `arena`, in floats, within the memory for
  // gradients, or -1 if `arena` is not in this memory.
  int64_t OffsetOf(const Buffer& arena) const;
  // Returns the arena that holds this version of the weights. It is in the
  // memory of the worker's GPU (kDevice) or of a different one (kPeerDevice).
  MemoryView Weights(int64_t version) const {
    return {weights_.memory.get() + version % 2 * arena_elements_,
            weights_.memory,
            weights_.local ? MemoryPlace::kDevice : MemoryPlace::kPeerDevice};
  }

 private:
  struct FreeArenas;

  DeviceExchangeMemory(MappedDeviceMemory weights,
                       std::shared_ptr<float> gradients, int64_t arenas,
                       int64_t arena_elements);

  const MappedDeviceMemory weights_;
  const std::shared_ptr<float> gradients_;
  const int64_t arenas_;
  const int64_t arena_elements_;
  const std::shared_ptr<FreeArenas> free_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_DEVICE_EXCHANGE_MEMORY_H_
