// A lane's weights and gradients in its device's own memory, and their ways
// from and to the host's, where the exchange works.
#ifndef TRIBUTARY_WORKER_TRAINING_DEVICE_ARENAS_H_
#define TRIBUTARY_WORKER_TRAINING_DEVICE_ARENAS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/parameter_table.h"
#include "worker/device/device.h"

namespace tributary {

// Each way has a copy stream of its own, beside the device's operations: new
// weights come in while the first layers compute, gradients leave while the
// layers before them do. Arenas in host memory should be pinned (see
// Device::PinHostMemory), or the host takes part in the copies.
//
// One thread at a time.
class DeviceArenas {
 public:
  // Both must outlive the arenas; `device` has memory of its own.
  // ResourceExhausted when it is full.
  static absl::StatusOr<std::unique_ptr<DeviceArenas>> Create(
      Device* device, const ArenaLayout* layout);
  // Waits for what is under way.
  ~DeviceArenas();
  DeviceArenas(const DeviceArenas&) = delete;
  DeviceArenas& operator=(const DeviceArenas&) = delete;

  // Device memory, of layout.arena_elements() elements.
  float* weights() const { return static_cast<float*>(weights_.get()); }
  float* gradients() const { return static_cast<float*>(gradients_.get()); }

  // What a chunk of weights is a copy of: the same version, the same bytes.
  struct Version {
    int64_t step = -1;
    int64_t base = -1;
  };
  // Operations from now on find in weights() the chunk as it is in the arena
  // `host`, which must not change until Synchronize. Nothing is copied if they
  // do already. No earlier operation may read the chunk any more.
  void Load(int chunk, const Version& version, const float* host);
  // The same for all chunks, of a version that never comes again.
  void LoadAll(const float* host);

  // Copies chunks [first, last) of `from`, an arena of the device's memory such
  // as gradients(), as the operations so far leave them, to the arena `host`;
  // the last of them first.
  void Save(int first, int last, const float* from, float* host);
  // Whether the chunk's copy is made.
  bool Saved(int chunk) { return saved_[chunk]->Done(); }
  void AwaitSaved(int chunk) { saved_[chunk]->Wait(); }

  // Returns when all copies are made, and all operations done.
  void Synchronize();

 private:
  DeviceArenas(Device* device, const ArenaLayout* layout,
               Device::Memory weights, Device::Memory gradients);
  absl::Status CreateQueues();
  void Copy(int chunk, const float* host);

  Device* const device_;
  const ArenaLayout* const layout_;
  const Device::Memory weights_;
  const Device::Memory gradients_;
  std::unique_ptr<CopyStream> loads_;
  std::unique_ptr<CopyStream> saves_;
  std::unique_ptr<Event> loaded_;
  std::unique_ptr<Event> computed_;
  std::vector<Version> versions_;              // In weights_, by chunk.
  std::vector<std::unique_ptr<Event>> saved_;  // By chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_DEVICE_ARENAS_H_
