// The functions of cuda_runtime.h. Most use the current GPU's context; see
// UseContext.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_runtime.h"

namespace emulated_gpu {
namespace {

std::atomic<int64_t> bytes_to_host{0};

// See Calls.
std::atomic<int64_t> copies_to_device{0}, copies_to_host{0}, launches{0},
    events{0}, waits{0};

// Begins a function that cannot be captured: returns whether the calling thread
// captures, with the function's error kept.
bool Captures() {
  UseContext();
  if (!SpoilsCapture()) return false;
  Keep(cudaErrorStreamCaptureUnsupported);
  return true;
}

[[noreturn]] void Stop(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s\n", what);
  std::abort();
}

// Ends the process if a copy's host memory, which was pinned when the copy was
// queued, is no longer.
void CheckStillPinned(const void* host, bool was_pinned) {
  if (was_pinned && !IsPinned(host)) {
    Stop("host memory was unpinned before a queued copy of it ran");
  }
}

}  // namespace

int64_t BytesToHost() { return bytes_to_host; }

Calls CountCalls() {
  return {copies_to_device, copies_to_host, launches, events, waits};
}

Calls operator-(const Calls& now, const Calls& before) {
  return {now.copies_to_device - before.copies_to_device,
          now.copies_to_host - before.copies_to_host,
          now.launches - before.launches, now.events - before.events,
          now.waits - before.waits};
}

cudaError_t CheckLaunch(Stream* stream) {
  if (cudaPeekAtLastError() != cudaSuccess) return cudaPeekAtLastError();
  if (Fails(Failing::kLaunch)) return Keep(cudaErrorLaunchOutOfResources);
  if (!IsCaptured(stream)) ++launches;
  return Keep(DeviceOf(stream) == UseContext()
                  ? cudaSuccess
                  : cudaErrorInvalidResourceHandle);
}

}  // namespace emulated_gpu

using emulated_gpu::Captures;
using emulated_gpu::Failing;
using emulated_gpu::Fails;
using emulated_gpu::Keep;
using emulated_gpu::Running;
using emulated_gpu::UseContext;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = emulated_gpu::CreateStream(UseContext());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  UseContext();
  emulated_gpu::DestroyStream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  if (Fails(Failing::kWait)) return Keep(cudaErrorLaunchFailure);
  ++emulated_gpu::waits;
  emulated_gpu::Reach(emulated_gpu::Record(stream));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (Fails(Failing::kEvent)) return Keep(cudaErrorLaunchFailure);
  *event = new emulated_gpu::Event;
  (*event)->device = UseContext();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  UseContext();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  if (event->device != emulated_gpu::DeviceOf(stream)) {
    return Keep(cudaErrorInvalidResourceHandle);
  }
  *event = emulated_gpu::Record(stream);
  ++emulated_gpu::events;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  return Keep(emulated_gpu::TryReach(*event) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  ++emulated_gpu::waits;
  emulated_gpu::Reach(*event);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::EnqueueWait(stream, *event);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  if (Fails(Failing::kAllocation)) return Keep(cudaErrorMemoryAllocation);
  *memory = emulated_gpu::AllocateMemory(emulated_gpu::CurrentDevice(), bytes);
  return Keep(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  if (memory == nullptr) return cudaSuccess;
  const int device = emulated_gpu::DeviceOf(memory);
  if (device < 0) emulated_gpu::Fail("cudaFree of memory that is no GPU's");
  // Like CUDA, after all work queued before.
  emulated_gpu::ReachAll(device);
  emulated_gpu::ReleaseMemory(memory);
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  UseContext();
  emulated_gpu::SharedBlock block;
  if (!emulated_gpu::ShareMemory(memory, &block)) {
    return Keep(cudaErrorInvalidValue);
  }
  *handle = {};
  std::memcpy(handle->reserved, &block, sizeof(block));
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                 unsigned flags) {
  const int device = UseContext();
  if (Fails(Failing::kMapping)) return Keep(cudaErrorMapBufferObjectFailed);
  emulated_gpu::SharedBlock block;
  std::memcpy(&block, handle.reserved, sizeof(block));
  if (block.process == getpid() && !emulated_gpu::HasOwnMapping()) {
    return Keep(cudaErrorDeviceUninitialized);
  }
  if (block.device != device &&
      ((flags & cudaIpcMemLazyEnablePeerAccess) == 0 ||
       !emulated_gpu::HasPeerAccess())) {
    return Keep(cudaErrorPeerAccessUnsupported);
  }
  *memory = emulated_gpu::MapMemory(device, block);
  return Keep(*memory == nullptr ? cudaErrorInvalidResourceHandle
                                 : cudaSuccess);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  UseContext();
  const int device = emulated_gpu::DeviceOf(memory);
  // Like CUDA, after all work queued before.
  if (device >= 0) emulated_gpu::ReachAll(device);
  return Keep(emulated_gpu::UnmapMemory(memory) ? cudaSuccess
                                                : cudaErrorInvalidValue);
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  constexpr size_t kAlignment = 256;
  *memory = std::aligned_alloc(
      kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return Keep(cudaErrorMemoryAllocation);
  emulated_gpu::Pin(*memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  for (int device = 0; device < emulated_gpu::kDevices; ++device) {
    emulated_gpu::ReachAll(device);
  }
  emulated_gpu::Unpin(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  if (emulated_gpu::IsPinned(memory)) {
    return Keep(cudaErrorHostMemoryAlreadyRegistered);
  }
  if ((flags & cudaHostRegisterReadOnly) == 0 &&
      !emulated_gpu::IsWritable(memory, bytes)) {
    return Keep(cudaErrorInvalidValue);
  }
  emulated_gpu::Pin(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  return Keep(emulated_gpu::Unpin(memory) ? cudaSuccess
                                          : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = emulated_gpu::FreeMemoryBytes(UseContext());
  *total = emulated_gpu::MemoryBytes();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  UseContext();
  if (Fails(Failing::kCopy)) return Keep(cudaErrorIllegalAddress);
  const bool on_device = kind == cudaMemcpyDeviceToDevice;
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool pinned = !on_device && emulated_gpu::IsPinned(host);
  if (!on_device && !pinned && emulated_gpu::SpoilsCapture()) {
    return Keep(cudaErrorStreamCaptureUnsupported);
  }
  const auto lacks = [](const void* memory) {
    return emulated_gpu::DeviceOf(memory) < 0;
  };
  if ((kind != cudaMemcpyDeviceToHost && lacks(to)) ||
      (kind != cudaMemcpyHostToDevice && lacks(from))) {
    return Keep(cudaErrorInvalidValue);
  }
  if (kind == cudaMemcpyHostToDevice) ++emulated_gpu::copies_to_device;
  if (kind == cudaMemcpyDeviceToHost) ++emulated_gpu::copies_to_host;
  emulated_gpu::Enqueue(stream, [=] {
    emulated_gpu::CheckStillPinned(host, pinned);
    if (kind == cudaMemcpyDeviceToHost) {
      emulated_gpu::bytes_to_host += static_cast<int64_t>(bytes);
    }
    const Running running;
    std::memcpy(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream) {
  UseContext();
  emulated_gpu::Enqueue(stream, [to, value, bytes] {
    const Running running;
    if (bytes > 0) std::memset(to, value, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* memory) {
  UseContext();
  attributes->device = emulated_gpu::HomeOf(memory);
  attributes->type = attributes->device >= 0 ? cudaMemoryTypeDevice
                     : emulated_gpu::IsPinned(memory)
                         ? cudaMemoryTypeHost
                         : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  UseContext();
  emulated_gpu::BeginCapture(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  UseContext();
  *graph = emulated_gpu::EndCapture(stream);
  return Keep(*graph == nullptr ? cudaErrorStreamCaptureInvalidated
                                : cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  UseContext();
  *executable = emulated_gpu::CopyGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (Captures()) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t error = emulated_gpu::CheckLaunch(stream);
  if (error != cudaSuccess) return error;
  emulated_gpu::Launch(*graph, stream);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  emulated_gpu::DestroyGraph(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  UseContext();
  emulated_gpu::DestroyGraph(graph);
  return cudaSuccess;
}
