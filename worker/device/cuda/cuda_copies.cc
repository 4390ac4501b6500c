#include "worker/device/cuda/cuda_copies.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

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

CudaEvent::~CudaEvent() {
  cudaSetDevice(ordinal_);
  cudaEventDestroy(event_);
}

bool CudaEvent::Done() {
  cudaSetDevice(ordinal_);
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // Clears the error, so that no later call reports it.
    return false;
  }
  if (error != cudaSuccess) {
    EndProcess(ToStatus(error, "while querying an event"));
  }
  return true;
}

void CudaEvent::Wait() {
  cudaSetDevice(ordinal_);
  const cudaError_t error = cudaEventSynchronize(event_);
  if (error != cudaSuccess) {
    EndProcess(ToStatus(error, "while waiting for an event"));
  }
}

void CudaEvent::RecordOn(Stream& stream) {
  stream.Check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

void CudaEvent::DelayWorkOf(Stream& stream) const {
  stream.Check(cudaStreamWaitEvent(stream.get(), event_, /*flags=*/0),
               "cudaStreamWaitEvent");
}

absl::StatusOr<std::unique_ptr<CudaCopyStream>> CudaCopyStream::Create(
    int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  return std::unique_ptr<CudaCopyStream>(new CudaCopyStream(std::move(stream)));
}

CudaCopyStream::CudaCopyStream(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)) {}

CudaCopyStream::~CudaCopyStream() { Current().Wait(); }

void CudaCopyStream::CopyFromHost(void* to, const void* from, size_t bytes) {
  Stream& stream = Current();
  stream.Check(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.get()),
      "CopyFromHost");
}

void CudaCopyStream::CopyToHost(void* to, const void* from, size_t bytes) {
  Stream& stream = Current();
  stream.Check(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.get()),
      "CopyToHost");
}

void CudaCopyStream::Record(Event* event) {
  static_cast<CudaEvent*>(event)->RecordOn(Current());
}

void CudaCopyStream::Await(const Event& event) {
  static_cast<const CudaEvent&>(event).DelayWorkOf(Current());
}

void CudaCopyStream::Synchronize() { Current().Wait(); }

Stream& CudaCopyStream::Current() {
  stream_->Activate();
  return *stream_;
}

}  // namespace tributary::cuda
