#include "worker/exchange/device_arenas.h"

#include <algorithm>
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
      versions_(layout->chunk_count()),
      copy_of_(layout->chunk_count()) {}

absl::Status DeviceArenas::CreateQueues() {
  TRIBUTARY_ASSIGN_OR_RETURN(loads_, device_->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(saves_, device_->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(loaded_, device_->copies()->CreateEvent());
  TRIBUTARY_ASSIGN_OR_RETURN(computed_, device_->copies()->CreateEvent());
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    TRIBUTARY_ASSIGN_OR_RETURN(saved_.emplace_back().end,
                               device_->copies()->CreateEvent());
  }
  return absl::OkStatus();
}

DeviceArenas::~DeviceArenas() {
  if (loads_ != nullptr && saves_ != nullptr) Synchronize().IgnoreError();
}

size_t DeviceArenas::BytesOf(int first, int last) const {
  const int64_t end =
      layout_->ChunkBegin(last - 1) + layout_->ChunkSize(last - 1);
  return static_cast<size_t>(end - layout_->ChunkBegin(first)) * sizeof(float);
}

bool DeviceArenas::Replace(int chunk, const Version& version) {
  Version& there = versions_[chunk];
  if (there.step == version.step && there.base == version.base) return false;
  there = version;
  return true;
}

void DeviceArenas::Copy(int first, int last, const float* from,
                        MemoryPlace place) {
  const int64_t begin = layout_->ChunkBegin(first);
  const size_t bytes = BytesOf(first, last);
  if (on_device_) {
    CopyOnDevice(from + begin, bytes, weights() + begin);
  } else if (place >= MemoryPlace::kDevice) {
    loads_->CopyOnDevice(weights() + begin, from + begin, bytes);
  } else {
    loads_->CopyFromHost(weights() + begin, from + begin, bytes);
  }
}

void DeviceArenas::CopyOnDevice(const float* from, size_t bytes, float* to) {
  NodeSumOps::Arguments copy;  // Does not round.
  copy.count = static_cast<int64_t>(bytes / sizeof(float));
  copy.x = from;
  copy.sum = to;
  device_->ops().node_sum->Keep(copy);
}

void DeviceArenas::Load(int first, absl::Span<const Version> versions,
                        const float* from, MemoryPlace place) {
  const int last = first + static_cast<int>(versions.size());
  bool copied = false;
  for (int chunk = first; chunk < last; ++chunk) {
    const int begin = chunk;
    while (chunk < last && Replace(chunk, versions[chunk - first])) ++chunk;
    if (begin == chunk) continue;
    Copy(begin, chunk, from, place);
    copied = true;
  }
  if (!copied || on_device_) return;
  loads_->Record(loaded_.get());
  device_->copies()->Await(*loaded_);
}

void DeviceArenas::LoadAll(const float* host) {
  versions_.assign(versions_.size(), Version());
  Copy(0, layout_->chunk_count(), host, MemoryPlace::kHost);
  if (on_device_) return;
  loads_->Record(loaded_.get());
  device_->copies()->Await(*loaded_);
}

void DeviceArenas::Save(int first, int last, const float* from, float* to,
                        MemoryPlace place) {
  if (first >= last) return;
  if (!on_device_) {
    device_->copies()->Record(computed_.get());
    saves_->Await(*computed_);
  }
  while (first < last) {
    int begin = last - 1;
    while (begin > first && BytesOf(begin - 1, last) <= kMaximumCopyBytes) {
      --begin;
    }
    SaveInOneCopy(begin, last, from, to, place);
    last = begin;
  }
}

void DeviceArenas::SaveInOneCopy(int first, int last, const float* from,
                                 float* to, MemoryPlace place) {
  const int64_t begin = layout_->ChunkBegin(first);
  const size_t bytes = BytesOf(first, last);
  if (on_device_) {
    CopyOnDevice(from + begin, bytes, to + begin);
    device_->copies()->Record(saved_[first].end.get());
  } else {
    if (place >= MemoryPlace::kDevice) {
      saves_->CopyOnDevice(to + begin, from + begin, bytes);
    } else {
      saves_->CopyToHost(to + begin, from + begin, bytes);
    }
    saves_->Record(saved_[first].end.get());
  }
  saved_[first].ended = false;
  std::fill(copy_of_.begin() + first, copy_of_.begin() + last, first);
}

absl::StatusOr<bool> DeviceArenas::Saved(int chunk) {
  SavedCopy& copy = saved_[copy_of_[chunk]];
  if (!copy.ended) {
    TRIBUTARY_ASSIGN_OR_RETURN(copy.ended, copy.end->Done());
  }
  return copy.ended;
}

absl::Status DeviceArenas::AwaitSaved(int chunk) {
  SavedCopy& copy = saved_[copy_of_[chunk]];
  if (copy.ended) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(copy.end->Wait());
  copy.ended = true;
  return absl::OkStatus();
}

absl::Status DeviceArenas::Synchronize() {
  absl::Status status = loads_->Synchronize();
  status.Update(saves_->Synchronize());
  status.Update(device_->Synchronize());
  return status;
}

}  // namespace tributary
