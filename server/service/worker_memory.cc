#include "server/service/worker_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "server/service/received_gradient.h"

namespace tributary {
namespace {

// Largest number of gradient arenas of a worker in the memory of the GPU. A
// worker has a few compute threads.
constexpr int kMostDeviceArenas = 64;

DeviceMemoryOffer OfferOf(const DeviceMemoryHandle& memory) {
  DeviceMemoryOffer offer;
  offer.set_process(memory.process);
  offer.set_handle(memory.handle);
  offer.set_bytes(memory.bytes);
  return offer;
}

}  // namespace

void WorkerMemory::Agree(const SharedMemoryOffer& offer, Welcome* welcome) {
  if (engine_->job().exchange().has_compression()) return;
  absl::StatusOr<std::shared_ptr<const MappedMemory>> memory =
      MappedMemory::Map(offer);
  if (!memory.ok()) return;
  // Reading weights in place needs an older version to fall back on.
  const absl::StatusOr<SharedMemoryOffer> ours =
      engine_->useful_versions() > 1
          ? engine_->memory().ShareWeights()
          : absl::StatusOr<SharedMemoryOffer>(SharedMemoryOffer());
  if (!ours.ok()) return;
  memory_ = *std::move(memory);
  float* const gradients =
      reinterpret_cast<float*>(const_cast<char*>(memory_->data()));
  gradients_ =
      engine_->memory().ArenasIn(Buffer(memory_, gradients), memory_->bytes());
  *welcome->mutable_memory() = *ours;
}

void WorkerMemory::AgreeOnDevice(int arenas, Welcome* welcome) {
  const std::shared_ptr<DeviceShare>& share = engine_->memory().device_share();
  if (share == nullptr || arenas <= 0) return;
  const int64_t elements = engine_->layout().arena_elements();
  absl::StatusOr<DeviceShare::Gradients> gradients =
      share->AllocateGradients(std::min(arenas, kMostDeviceArenas) * elements);
  if (!gradients.ok()) return;
  device_gradients_ = *std::move(gradients);
  *welcome->mutable_device_weights() = OfferOf(share->weights());
  *welcome->mutable_device_gradients() = OfferOf(device_gradients_.handle);
}

absl::StatusOr<std::shared_ptr<const GradientSource>> WorkerMemory::GradientOf(
    const Contribution& c) const {
  const bool there =
      c.on_device() ? device_gradients_.memory != nullptr : memory_ != nullptr;
  if (!there) {
    return absl::FailedPreconditionError(
        c.on_device()
            ? "gradients in GPU memory that the worker has not mapped"
            : "gradients in shared memory that the server has not mapped");
  }
  const int64_t bytes =
      c.on_device() ? device_gradients_.handle.bytes : memory_->bytes();
  const int64_t elements = bytes / int64_t{sizeof(float)};
  const int64_t size = engine_->layout().ChunkSize(c.chunk());
  if (c.offset() < 0 || c.offset() > elements - size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gradient at element ", c.offset(), " of ", elements,
                     c.on_device() ? " in the memory of the server's GPU"
                                   : " in the worker's memory"));
  }
  if (c.on_device()) {
    return std::make_shared<GradientOnDevice>(
        device_gradients_.memory.get() + c.offset(), device_gradients_.memory,
        engine_->memory().device_share());
  }
  // Read only, as is all memory that a worker shares.
  auto* const values =
      const_cast<float*>(reinterpret_cast<const float*>(memory_->data()));
  return std::make_shared<GradientInMemory>(
      MemoryView{values + c.offset(),
                 gradients_->Use(c.offset() * int64_t{sizeof(float)},
                                 size * int64_t{sizeof(float)}),
                 MemoryPlace::kShared},
      engine_->job().exchange().wire_dtype());
}

}  // namespace tributary
