#include "worker/exchange/parameter_server/device_exchange_memory.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

DeviceMemoryHandle HandleOf(const DeviceMemoryOffer& offer) {
  return {offer.process(), offer.handle(), offer.bytes()};
}

}  // namespace

struct DeviceExchangeMemory::FreeArenas {
  absl::Mutex mu;
  // The first free arena is used first, so that few are in use.
  std::vector<bool> used ABSL_GUARDED_BY(mu);
};

absl::StatusOr<std::shared_ptr<DeviceExchangeMemory>> DeviceExchangeMemory::Map(
    const Welcome& welcome, int64_t arena_elements,
    const MapDeviceMemory& map) {
  if (!welcome.has_device_weights() || !welcome.has_device_gradients()) {
    return absl::FailedPreconditionError(
        "the server offers no GPU memory: it updates weights on the CPU, is "
        "one of several servers, its GPU has no free memory for it, or the job "
        "does not allow it");
  }
  const int64_t arena_bytes = arena_elements * int64_t{sizeof(float)};
  const int64_t gradient_bytes = welcome.device_gradients().bytes();
  if (welcome.device_weights().bytes() != 2 * arena_bytes ||
      gradient_bytes < arena_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server offers ", welcome.device_weights().bytes(), " and ",
        gradient_bytes, " bytes of GPU memory for arenas of ", arena_bytes));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(MappedDeviceMemory weights,
                             map(HandleOf(welcome.device_weights())));
  TRIBUTARY_ASSIGN_OR_RETURN(MappedDeviceMemory gradients,
                             map(HandleOf(welcome.device_gradients())));
  return std::shared_ptr<DeviceExchangeMemory>(
      new DeviceExchangeMemory(std::move(weights), std::move(gradients.memory),
                               gradient_bytes / arena_bytes, arena_elements));
}

DeviceExchangeMemory::DeviceExchangeMemory(MappedDeviceMemory weights,
                                           std::shared_ptr<float> gradients,
                                           int64_t arenas,
                                           int64_t arena_elements)
    : weights_(std::move(weights)),
      gradients_(std::move(gradients)),
      arenas_(arenas),
      arena_elements_(arena_elements),
      free_(std::make_shared<FreeArenas>()) {
  absl::MutexLock lock(&free_->mu);
  free_->used.assign(static_cast<size_t>(arenas), false);
}

Buffer DeviceExchangeMemory::Take() {
  absl::MutexLock lock(&free_->mu);
  for (size_t arena = 0; arena < free_->used.size(); ++arena) {
    if (free_->used[arena]) continue;
    free_->used[arena] = true;
    return Buffer(
        gradients_.get() + static_cast<int64_t>(arena) * arena_elements_,
        [arena, memory = gradients_, free = free_](float*) {
          absl::MutexLock free_lock(&free->mu);
          free->used[arena] = false;
        });
  }
  return nullptr;
}

int64_t DeviceExchangeMemory::OffsetOf(const Buffer& arena) const {
  const std::less<const float*> before;
  const float* const end = gradients_.get() + arenas_ * arena_elements_;
  if (before(arena.get(), gradients_.get()) || !before(arena.get(), end)) {
    return -1;
  }
  return arena.get() - gradients_.get();
}

}  // namespace tributary
