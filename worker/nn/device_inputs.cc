#include "worker/nn/device_inputs.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "worker/nn/plan/tensor_memory.h"

namespace tributary {
namespace {

// Memory is pinned in whole pages.
constexpr int64_t kPageBytes = 4096;

}  // namespace

void CopyInput(const Graph& graph, const MicroBatchInput& micro_batch,
               void* to) {
  const int64_t vector_bytes = graph.vector_elements() * kElementBytes;
  const int64_t input_bytes =
      graph.values()[graph.input()] * kElementBytes - vector_bytes;
  if (vector_bytes == 0) {
    std::memcpy(to, micro_batch.input, micro_batch.samples * input_bytes);
    return;
  }
  const auto* input = static_cast<const char*>(micro_batch.input);
  const auto* vectors = reinterpret_cast<const char*>(micro_batch.vectors);
  auto* out = static_cast<char*>(to);
  for (int64_t i = 0; i < micro_batch.samples; ++i) {
    if (input_bytes > 0) std::memcpy(out, input, input_bytes);
    std::memcpy(out + input_bytes, vectors, vector_bytes);
    input += input_bytes;
    vectors += vector_bytes;
    out += input_bytes + vector_bytes;
  }
}

DeviceInputs::Sizes DeviceInputs::SizesOf(const Graph& graph,
                                          int64_t max_samples) {
  Sizes sizes;
  sizes.input_bytes = graph.values()[0] * kElementBytes;
  sizes.target_bytes = graph.loss().TargetElements() * kElementBytes;
  sizes.target_offset =
      RoundUp(max_samples * sizes.input_bytes, kTensorAlignment);
  sizes.total = sizes.target_offset +
                RoundUp(max_samples * sizes.target_bytes, kTensorAlignment);
  return sizes;
}

int64_t DeviceInputs::BytesOf(const Graph& graph, int64_t max_samples,
                              const Device& device) {
  if (!device.has_own_memory()) return 0;
  return SizesOf(graph, max_samples).total;
}

absl::StatusOr<std::unique_ptr<DeviceInputs>> DeviceInputs::Create(
    const Graph& graph, int64_t max_samples, Device* device) {
  if (!device->has_own_memory()) return nullptr;
  const Sizes sizes = SizesOf(graph, max_samples);
  TRIBUTARY_ASSIGN_OR_RETURN(Device::Memory memory,
                             device->Allocate(sizes.total));
  HostMemory staging(static_cast<char*>(std::aligned_alloc(
                         kPageBytes, RoundUp(sizes.total, kPageBytes))),
                     std::free);
  if (staging == nullptr) {
    return absl::ResourceExhaustedError("out of host memory");
  }
  auto inputs = absl::WrapUnique(new DeviceInputs(
      graph, sizes, device, std::move(memory), std::move(staging)));
  TRIBUTARY_RETURN_IF_ERROR(inputs->CreateQueue());
  return inputs;
}

DeviceInputs::DeviceInputs(const Graph& graph, const Sizes& sizes,
                           Device* device, Device::Memory memory,
                           HostMemory staging)
    : graph_(graph),
      input_bytes_(sizes.input_bytes),
      target_bytes_(sizes.target_bytes),
      target_offset_(sizes.target_offset),
      device_(device),
      memory_(std::move(memory)),
      staging_(std::move(staging)),
      pinned_(device->copies()->PinHostMemory(
          staging_.get(), RoundUp(sizes.total, kPageBytes))) {}

absl::Status DeviceInputs::CreateQueue() {
  TRIBUTARY_ASSIGN_OR_RETURN(copies_, device_->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(copied_, device_->copies()->CreateEvent());
  TRIBUTARY_ASSIGN_OR_RETURN(released_, device_->copies()->CreateEvent());
  return absl::OkStatus();
}

DeviceInputs::~DeviceInputs() {
  if (copies_ != nullptr) copies_->Synchronize().IgnoreError();
  // Operations may still read the transferred micro-batch.
  device_->Synchronize().IgnoreError();
}

void DeviceInputs::Bring(const MicroBatchInput& micro_batch) {
  // An error reaches the device's operations through Await.
  copied_->Wait().IgnoreError();
  copies_->Await(*released_);
  if (micro_batch.samples > 0) {
    CopyInput(graph_, micro_batch, staging_.get());
    Copy(/*offset=*/0, micro_batch.samples * input_bytes_);
  }
  if (micro_batch.samples > 0 && micro_batch.target != nullptr) {
    const int64_t bytes = micro_batch.samples * target_bytes_;
    std::memcpy(staging_.get() + target_offset_, micro_batch.target, bytes);
    Copy(target_offset_, bytes);
  }
  copies_->Record(copied_.get());
}

void DeviceInputs::Copy(int64_t offset, int64_t bytes) {
  copies_->CopyFromHost(static_cast<char*>(memory_.get()) + offset,
                        staging_.get() + offset, bytes);
}

}  // namespace tributary
