// Streams, events and memory of the emulated GPU.
//
// Work runs as late as CUDA allows: when something waits for it, or asks
// whether it is done. So what is read before anybody has waited for it is old,
// and what is overwritten too early is read as it is then: the results of code
// that lacks a wait are wrong every time.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulated_gpu {

class Stream;

// A point in a stream's work.
struct Event {
  Stream* stream = nullptr;  // Null: never recorded.
  int64_t position = 0;
};

Stream* CreateStream();
void DestroyStream(Stream* stream);  // Runs what is queued.

// Queues work, or captures it. It returns false where it cannot be done yet (it
// waits for another process, say), and is called again later. Not more than one
// piece of work runs at a time, whatever its stream.
void Enqueue(Stream* stream, std::function<bool()> work);
Event Record(Stream* stream);
// Runs what can be run before the event: whether that was all.
bool TryReach(const Event& event);
// Until all before the event has run.
void Reach(const Event& event);

// Device memory that is mapped from now on cannot be touched but by what runs
// on the GPU: whoever does gets a SIGSEGV. For programs that do nothing else
// with it: AddressSanitizer does not see overruns of such memory.
void ProtectMemory();

// What a stream was given while it was captured.
class Graph;

// From now on, what the stream is given is not queued. For the calling thread,
// which may do nothing meanwhile that cannot be captured.
void BeginCapture(Stream* stream);
// Null if it has, or if captures are refused.
Graph* EndCapture(Stream* stream);
// Whether the calling thread captures: then it cannot do what it is about to
// do, and the capture is lost.
bool SpoilsCapture();
// Queues what was captured as one piece of work.
void Launch(const Graph& graph, Stream* stream);
void DestroyGraph(Graph* graph);
// Of all, so far.
int64_t GraphLaunches();
// Copied so far.
int64_t BytesToHost();
// From now on, all captures fail.
void RefuseCaptures(bool refuse);

// Null if there is none.
void* AllocateMemory(size_t bytes);
void FreeMemory(void* memory);
// So much can be allocated in all, from now on. 1 TiB at first.
void SetMemoryBytes(size_t bytes);
size_t MemoryBytes();
size_t FreeMemoryBytes();

// While one exists, something runs on the GPU.
class Running {
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

// Host memory that copies use without the host.
void Pin(const void* memory, size_t bytes);
bool Unpin(const void* memory);  // False: it is not pinned.
bool IsPinned(const void* memory);
// Of all, so far.
int64_t PinnedRanges();

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
