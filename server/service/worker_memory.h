// The memory through which a server and a worker on its host exchange payloads.
#ifndef TRIBUTARY_SERVER_SERVICE_WORKER_MEMORY_H_
#define TRIBUTARY_SERVER_SERVICE_WORKER_MEMORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/os/shared_memory.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/device_share.h"
#include "common/update/pinned_arenas.h"
#include "common/update/update_engine.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Maps a worker's memory, offers the engine's memory to the worker, and finds
// the worker's gradients in memory. Not thread-safe.
class WorkerMemory {
 public:
  // `engine` must outlive this object.
  explicit WorkerMemory(UpdateEngine* engine) : engine_(engine) {}

  // Maps the worker's shared memory, and offers the engine's shared memory in
  // `*welcome`. If either fails, or if the job uses compression, leaves
  // `*welcome` unchanged, and payloads are sent in the stream. In modes in
  // which workers need only the newest version, the offer is empty, and weights
  // are sent in the stream.
  void Agree(const SharedMemoryOffer& offer, Welcome* welcome);
  // Offers the memory of the engine's device in `*welcome`, with at most
  // `arenas` arenas (parts, one per gradient in flight) for the worker's
  // gradients. Offers nothing if workers cannot map this memory, or if the
  // device has no room for the arenas.
  void AgreeOnDevice(int arenas, Welcome* welcome);
  // Frees the memory of the device that has been offered.
  void LeaveDevice() { device_gradients_ = DeviceShare::Gradients(); }

  // True if gradients are in shared memory, or in the memory of the device.
  bool shared() const { return memory_ != nullptr; }
  bool on_device() const { return device_gradients_.memory != nullptr; }
  // Returns the gradient of a contribution in shared memory or on the device.
  // Returns FailedPrecondition or InvalidArgument if it is in neither.
  absl::StatusOr<std::shared_ptr<const GradientSource>> GradientOf(
      const Contribution& c) const;

 private:
  UpdateEngine* const engine_;
  // The worker's shared memory, which holds its gradients. Null if gradients
  // are sent in the stream.
  std::shared_ptr<const MappedMemory> memory_;
  // The arenas (equal parts, one per gradient in flight) of `memory_`. An arena
  // is pinned when it is first used.
  std::unique_ptr<PinnedArenas> gradients_;
  // The part of the memory of the engine's device that holds the worker's
  // gradients. device_gradients_.memory is null if the worker's gradients are
  // not in that memory.
  DeviceShare::Gradients device_gradients_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WORKER_MEMORY_H_
