#include "worker/device/cuda/cuda_copies.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/ipc_memory.h"
#include "common/cuda/pinned_memory.h"

namespace tributary::cuda {

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create(int ordinal) {
  const std::string what =
      absl::StrCat("cannot create an event on cuda:", ordinal);
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(cudaSetDevice(ordinal), what));
  cudaEvent_t event;
  // Without timing. The host sleeps instead of spinning while it waits, because
  // other compute threads need the core.
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(
                   &event, cudaEventDisableTiming | cudaEventBlockingSync),
               what));
  return std::unique_ptr<CudaEvent>(new CudaEvent(ordinal, event));
}

std::unique_ptr<CudaEvent> CudaEvent::Failed(int ordinal,
                                             const absl::Status& error) {
  std::unique_ptr<CudaEvent> event(new CudaEvent(ordinal, /*event=*/nullptr));
  event->status_ = error;
  return event;
}

CudaEvent::~CudaEvent() {
  if (event_ == nullptr) return;
  cudaSetDevice(ordinal_);
  cudaEventDestroy(event_);
}

absl::StatusOr<bool> CudaEvent::Done() {
  TRIBUTARY_RETURN_IF_ERROR(status_);
  cudaSetDevice(ordinal_);
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // Clears the error, so that no later call reports it.
    return false;
  }
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(error, absl::StrCat("querying an event on cuda:", ordinal_)));
  return true;
}

absl::Status CudaEvent::Wait() {
  TRIBUTARY_RETURN_IF_ERROR(status_);
  cudaSetDevice(ordinal_);
  return ToStatus(cudaEventSynchronize(event_),
                  absl::StrCat("waiting for an event on cuda:", ordinal_));
}

void CudaEvent::RecordOn(Stream& stream) {
  stream.Enqueue("cudaEventRecord", [&](cudaStream_t queue) {
    return cudaEventRecord(event_, queue);
  });
  status_ = stream.status();
}

void CudaEvent::DelayWorkOf(Stream& stream) const {
  stream.Check(status_);
  stream.Enqueue("cudaStreamWaitEvent", [&](cudaStream_t queue) {
    return cudaStreamWaitEvent(queue, event_, /*flags=*/0);
  });
}

absl::StatusOr<std::unique_ptr<CudaCopyStream>> CudaCopyStream::Create(
    int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  return std::unique_ptr<CudaCopyStream>(new CudaCopyStream(std::move(stream)));
}

CudaCopyStream::CudaCopyStream(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)) {}

CudaCopyStream::~CudaCopyStream() {
  Current().Wait().IgnoreError();  // Users have asked for it before.
}

void CudaCopyStream::CopyFromHost(void* to, const void* from, size_t bytes) {
  Current().Enqueue("CopyFromHost", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue);
  });
}

void CudaCopyStream::CopyToHost(void* to, const void* from, size_t bytes) {
  Current().Enqueue("CopyToHost", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue);
  });
}

void CudaCopyStream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  Current().Enqueue("CopyOnDevice", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue);
  });
}

void CudaCopyStream::Record(Event* event) {
  static_cast<CudaEvent*>(event)->RecordOn(Current());
}

void CudaCopyStream::Await(const Event& event) {
  static_cast<const CudaEvent&>(event).DelayWorkOf(Current());
}

absl::Status CudaCopyStream::Synchronize() { return Current().Wait(); }

Stream& CudaCopyStream::Current() {
  stream_->Activate();
  return *stream_;
}

absl::StatusOr<std::unique_ptr<CopyStream>> CudaCopies::CreateStream() {
  return CudaCopyStream::Create(context_->ordinal());
}

absl::StatusOr<std::unique_ptr<Event>> CudaCopies::CreateEvent() {
  return CudaEvent::Create(context_->ordinal());
}

std::shared_ptr<void> CudaCopies::PinHostMemory(void* memory, size_t bytes) {
  // May run on any thread, so errors are not recorded in the stream.
  return cuda::PinHostMemory(context_->ordinal(), memory, bytes);
}

absl::StatusOr<std::shared_ptr<float>> CudaCopies::MapMemory(
    const DeviceMemoryHandle& handle) {
  return MapSharedMemory(context_->ordinal(), handle);
}

bool CudaCopies::OwnsMemory(const float* mapped) const {
  return OwnsSharedMemory(context_->ordinal(), mapped);
}

void CudaCopies::Record(Event* event) {
  static_cast<CudaEvent*>(event)->RecordOn(context_->Current());
}

void CudaCopies::Await(const Event& event) {
  static_cast<const CudaEvent&>(event).DelayWorkOf(context_->Current());
}

}  // namespace tributary::cuda
