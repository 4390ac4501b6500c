#include "worker/training/device_arenas.h"

#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<DeviceArenas>> DeviceArenas::Create(
    Device* device, const ArenaLayout* layout) {
  const size_t bytes =
      static_cast<size_t>(layout->arena_elements()) * sizeof(float);
  TRIBUTARY_ASSIGN_OR_RETURN(Device::Memory weights, device->Allocate(bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(Device::Memory gradients, device->Allocate(bytes));
  auto arenas = absl::WrapUnique(new DeviceArenas(
      device, layout, std::move(weights), std::move(gradients)));
  TRIBUTARY_RETURN_IF_ERROR(arenas->CreateQueues());
  return arenas;
}

DeviceArenas::DeviceArenas(Device* device, const ArenaLayout* layout,
                           Device::Memory weights, Device::Memory gradients)
    : device_(device),
      layout_(layout),
      weights_(std::move(weights)),
      gradients_(std::move(gradients)),
      versions_(layout->chunk_count()) {}

absl::Status DeviceArenas::CreateQueues() {
  TRIBUTARY_ASSIGN_OR_RETURN(loads_, device_->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(saves_, device_->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(loaded_, device_->copies()->CreateEvent());
  TRIBUTARY_ASSIGN_OR_RETURN(computed_, device_->copies()->CreateEvent());
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    TRIBUTARY_ASSIGN_OR_RETURN(saved_.emplace_back(),
                               device_->copies()->CreateEvent());
  }
  return absl::OkStatus();
}

DeviceArenas::~DeviceArenas() {
  if (loads_ != nullptr && saves_ != nullptr) Synchronize().IgnoreError();
}

void DeviceArenas::Copy(int chunk, const float* host) {
  const int64_t begin = layout_->ChunkBegin(chunk);
  loads_->CopyFromHost(
      weights() + begin, host + begin,
      static_cast<size_t>(layout_->ChunkSize(chunk)) * sizeof(float));
}

void DeviceArenas::Load(int chunk, const Version& version, const float* host) {
  Version& there = versions_[chunk];
  if (there.step == version.step && there.base == version.base) return;
  Copy(chunk, host);
  there = version;
  loads_->Record(loaded_.get());
  device_->copies()->Await(*loaded_);
}

void DeviceArenas::LoadAll(const float* host) {
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    Copy(chunk, host);
    versions_[chunk] = Version();
  }
  loads_->Record(loaded_.get());
  device_->copies()->Await(*loaded_);
}

void DeviceArenas::Save(int first, int last, const float* from, float* host) {
  if (first >= last) return;
  device_->copies()->Record(computed_.get());
  saves_->Await(*computed_);
  for (int chunk = last - 1; chunk >= first; --chunk) {
    const int64_t begin = layout_->ChunkBegin(chunk);
    saves_->CopyToHost(
        host + begin, from + begin,
        static_cast<size_t>(layout_->ChunkSize(chunk)) * sizeof(float));
    saves_->Record(saved_[chunk].get());
  }
}

absl::Status DeviceArenas::Synchronize() {
  absl::Status status = loads_->Synchronize();
  status.Update(saves_->Synchronize());
  status.Update(device_->Synchronize());
  return status;
}

}  // namespace tributary
