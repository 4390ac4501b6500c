#include "tests/worker/device/cuda/emulation/emulated_streams.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cuda_runtime.h"

namespace emulated_gpu {

class Graph {
 public:
  std::vector<std::function<bool()>> work;
  bool spoilt = false;
};

class Stream {
 public:
  std::shared_ptr<Graph> capture;  // Null: it is not captured.
  std::deque<std::function<bool()>> work;
  int64_t done = 0;
  int64_t queued() const { return done + static_cast<int64_t>(work.size()); }
};

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;
// Addresses for protected memory.
constexpr size_t kRegion = size_t{64} << 30;

// What the thread captures.
thread_local Graph* captured = nullptr;

std::atomic<bool> refuse_captures{false};
std::atomic<int64_t> graph_launches{0};
std::atomic<int64_t> bytes_to_host{0};

// Held while queued work runs.
ABSL_CONST_INIT absl::Mutex queue_mutex(absl::kConstInit);

std::set<Stream*>& Streams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex) {
  static auto* const streams = new std::set<Stream*>;
  return *streams;
}

// What `position` pieces of a stream's work wait for may be work of another.
bool RunTo(Stream* stream, int64_t position)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex) {
  while (stream->done < position) {
    if (!stream->work.front()()) return false;
    stream->work.pop_front();
    ++stream->done;
  }
  return true;
}

class Memory {
 public:
  void Protect() {
    absl::MutexLock lock(&mu_);
    if (protect_) return;
    protect_ = true;
    void* const region =
        mmap(nullptr, kRegion, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region != MAP_FAILED) region_ = static_cast<char*>(region);
  }

  void* Allocate(size_t bytes) {
    absl::MutexLock lock(&mu_);
    if (bytes > limit_ - std::min(limit_, used_)) return nullptr;
    void* const memory = protect_ ? TakeProtected(bytes) : TakeHeap(bytes);
    if (memory == nullptr) return nullptr;
    if (protect_) SetAccess(PROT_READ | PROT_WRITE);
    std::memset(memory, 0xff, bytes);  // NaN.
    if (protect_ && running_ == 0) SetAccess(PROT_NONE);
    blocks_[memory] = bytes;
    used_ += bytes;
    return memory;
  }

  void Free(void* memory) {
    if (memory == nullptr) return;
    absl::MutexLock lock(&mu_);
    const auto block = blocks_.find(memory);
    if (block == blocks_.end()) std::abort();  // Not the GPU's.
    const char* const at = static_cast<char*>(memory);
    if (at >= region_ && at < region_ + kRegion) {
      // Its addresses are not used again.
      madvise(memory, RoundUp(block->second, kPage), MADV_DONTNEED);
    } else {
      std::free(memory);
    }
    used_ -= block->second;
    blocks_.erase(block);
  }

  void Open() {
    absl::MutexLock lock(&mu_);
    if (running_++ == 0) SetAccess(PROT_READ | PROT_WRITE);
  }
  void Close() {
    absl::MutexLock lock(&mu_);
    if (--running_ == 0) SetAccess(PROT_NONE);
  }

  void SetLimit(size_t bytes) {
    absl::MutexLock lock(&mu_);
    limit_ = bytes;
  }
  size_t limit() {
    absl::MutexLock lock(&mu_);
    return limit_;
  }
  size_t free() {
    absl::MutexLock lock(&mu_);
    return limit_ - std::min(limit_, used_);
  }

 private:
  static size_t RoundUp(size_t bytes, size_t unit) {
    return (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
  }

  static void* TakeHeap(size_t bytes) {
    return std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
  }

  void* TakeProtected(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const size_t size = RoundUp(bytes, kPage);
    if (region_ == nullptr || size > kRegion - taken_) return nullptr;
    char* const memory = region_ + taken_;
    taken_ += size;
    return memory;
  }

  // Of all that was ever taken: one call of the system.
  void SetAccess(int access) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (taken_ > 0) mprotect(region_, taken_, access);
  }

  absl::Mutex mu_;
  bool protect_ ABSL_GUARDED_BY(mu_) = false;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  size_t limit_ ABSL_GUARDED_BY(mu_) = size_t{1} << 40;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<void*, size_t> blocks_ ABSL_GUARDED_BY(mu_);  // Their bytes.
  // Of protected memory; null: there is none.
  char* region_ ABSL_GUARDED_BY(mu_) = nullptr;
  size_t taken_ ABSL_GUARDED_BY(mu_) = 0;
};

Memory& TheMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

struct PinnedMemory {
  absl::Mutex mu;
  std::map<const char*, size_t> ranges ABSL_GUARDED_BY(mu);  // By their begin.
  int64_t count ABSL_GUARDED_BY(mu) = 0;
};

PinnedMemory& Pinned() {
  static auto* const pinned = new PinnedMemory;
  return *pinned;
}

}  // namespace

Stream* CreateStream() {
  auto* const stream = new Stream;
  absl::MutexLock lock(&queue_mutex);
  Streams().insert(stream);
  return stream;
}

void DestroyStream(Stream* stream) {
  Reach(Record(stream));
  absl::MutexLock lock(&queue_mutex);
  Streams().erase(stream);
  // Events of a destroyed stream may still be waited for. The object stays, so
  // that no new stream gets its address and is mistaken for it.
  static auto* const destroyed = new std::vector<Stream*>;
  destroyed->push_back(stream);
}

void Enqueue(Stream* stream, std::function<bool()> work) {
  absl::MutexLock lock(&queue_mutex);
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->work.push_back(std::move(work));
  }
}

Event Record(Stream* stream) {
  absl::MutexLock lock(&queue_mutex);
  return {stream, stream->queued()};
}

bool TryReach(const Event& event) {
  if (event.stream == nullptr) return true;
  absl::MutexLock lock(&queue_mutex);
  return RunTo(event.stream, event.position);
}

void Reach(const Event& event) {
  while (!TryReach(event)) std::this_thread::yield();
}

void BeginCapture(Stream* stream) {
  absl::MutexLock lock(&queue_mutex);
  stream->capture = std::make_shared<Graph>();
  captured = stream->capture.get();
}

Graph* EndCapture(Stream* stream) {
  absl::MutexLock lock(&queue_mutex);
  const std::shared_ptr<Graph> capture =
      std::exchange(stream->capture, nullptr);
  captured = nullptr;
  if (capture->spoilt || refuse_captures) return nullptr;
  return new Graph(*capture);
}

bool SpoilsCapture() {
  if (captured != nullptr) captured->spoilt = true;
  return captured != nullptr;
}

void Launch(const Graph& graph, Stream* stream) {
  ++graph_launches;
  // The graph may be destroyed before it runs. What waits for other processes
  // is not captured: all of it can be done at once.
  Enqueue(stream, [work = graph.work] {
    for (const std::function<bool()>& piece : work) {
      if (!piece()) std::abort();
    }
    return true;
  });
}

void DestroyGraph(Graph* graph) { delete graph; }

int64_t GraphLaunches() { return graph_launches; }
int64_t BytesToHost() { return bytes_to_host; }

void RefuseCaptures(bool refuse) { refuse_captures = refuse; }

void ProtectMemory() { TheMemory().Protect(); }
void* AllocateMemory(size_t bytes) { return TheMemory().Allocate(bytes); }
void FreeMemory(void* memory) {
  // As CUDA, when all that was queued before has been done.
  std::vector<Event> queued;
  {
    absl::MutexLock lock(&queue_mutex);
    for (Stream* stream : Streams()) {
      queued.push_back({stream, stream->queued()});
    }
  }
  for (const Event& event : queued) Reach(event);
  TheMemory().Free(memory);
}
void SetMemoryBytes(size_t bytes) { TheMemory().SetLimit(bytes); }
size_t MemoryBytes() { return TheMemory().limit(); }
size_t FreeMemoryBytes() { return TheMemory().free(); }

Running::Running() { TheMemory().Open(); }

Running::~Running() { TheMemory().Close(); }

void Pin(const void* memory, size_t bytes) {
  absl::MutexLock lock(&Pinned().mu);
  Pinned().ranges[static_cast<const char*>(memory)] = bytes;
  ++Pinned().count;
}

bool Unpin(const void* memory) {
  absl::MutexLock lock(&Pinned().mu);
  return Pinned().ranges.erase(static_cast<const char*>(memory)) > 0;
}

bool IsPinned(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  absl::MutexLock lock(&Pinned().mu);
  auto range = Pinned().ranges.upper_bound(at);
  if (range == Pinned().ranges.begin()) return false;
  --range;
  return at < range->first + range->second;
}

int64_t PinnedRanges() {
  absl::MutexLock lock(&Pinned().mu);
  return Pinned().count;
}

}  // namespace emulated_gpu

using emulated_gpu::Failing;
using emulated_gpu::Running;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = emulated_gpu::CreateStream();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulated_gpu::DestroyStream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  if (emulated_gpu::Fails(Failing::kWait)) return cudaErrorLaunchFailure;
  emulated_gpu::Reach(emulated_gpu::Record(stream));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new emulated_gpu::Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  *event = emulated_gpu::Record(stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  return emulated_gpu::TryReach(*event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::Reach(*event);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::Enqueue(
      stream, [event = *event]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return event.stream == nullptr ||
               emulated_gpu::RunTo(event.stream, event.position);
      });
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  if (emulated_gpu::Fails(Failing::kAllocation)) {
    return cudaErrorMemoryAllocation;
  }
  *memory = emulated_gpu::AllocateMemory(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::FreeMemory(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  constexpr size_t kAlignment = 256;
  *memory = std::aligned_alloc(
      kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  emulated_gpu::Pin(*memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::Unpin(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  if (emulated_gpu::IsPinned(memory))
    return cudaErrorHostMemoryAlreadyRegistered;
  emulated_gpu::Pin(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  return emulated_gpu::Unpin(memory) ? cudaSuccess
                                     : cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = emulated_gpu::FreeMemoryBytes();
  *total = emulated_gpu::MemoryBytes();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  if (emulated_gpu::Fails(Failing::kCopy)) return cudaErrorIllegalAddress;
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool pinned =
      kind == cudaMemcpyDeviceToDevice || emulated_gpu::IsPinned(host);
  if (!pinned && emulated_gpu::SpoilsCapture()) {
    return cudaErrorStreamCaptureUnsupported;
  }
  emulated_gpu::Enqueue(stream, [to, from, bytes, kind] {
    if (kind == cudaMemcpyDeviceToHost)
      emulated_gpu::bytes_to_host += static_cast<int64_t>(bytes);
    const Running running;
    std::memcpy(to, from, bytes);
    return true;
  });
  // CUDA is done with memory that is not pinned when it returns.
  if (!pinned) return cudaStreamSynchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream) {
  emulated_gpu::Enqueue(stream, [to, value, bytes] {
    const Running running;
    if (bytes > 0) std::memset(to, value, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* memory) {
  attributes->type = emulated_gpu::IsPinned(memory)
                         ? cudaMemoryTypeHost
                         : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  emulated_gpu::BeginCapture(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = emulated_gpu::EndCapture(stream);
  return *graph == nullptr ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new emulated_gpu::Graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (emulated_gpu::SpoilsCapture()) return cudaErrorStreamCaptureUnsupported;
  emulated_gpu::Launch(*graph, stream);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  emulated_gpu::DestroyGraph(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  emulated_gpu::DestroyGraph(graph);
  return cudaSuccess;
}
