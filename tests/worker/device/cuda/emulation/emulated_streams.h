// Streams, events and graphs of the emulated GPUs.
//
// Work runs as late as CUDA allows: when something waits for it, or queries
// whether it is complete. A result that is read before a wait is therefore an
// old value, and work reads memory that was overwritten too early in its
// overwritten state. Code that lacks a wait thus computes wrong results in
// every run.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/worker/device/cuda/emulation/emulated_devices.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"

namespace emulated_gpu {

class Stream;

// A point in the queue of a stream: after the first `position` pieces of its
// work.
struct Event {
  int device = 0;
  Stream* stream = nullptr;  // Null if the event was never recorded.
  int64_t position = 0;
};

Stream* CreateStream(int device);
// Returns at once, like CUDA: queued work still runs later.
void DestroyStream(Stream* stream);
// Returns the number of the stream's GPU.
int DeviceOf(const Stream* stream);

// Makes streams that are created from now on share `queues` hardware queues of
// their GPU, as with CUDA_DEVICE_MAX_CONNECTIONS. Work in one queue runs in the
// order in which it was queued, even if it belongs to different streams, so
// work that waits for a different process delays other streams. With 0, the
// default, each stream has a queue of its own.
void SetConnections(int queues);

// Queues `work`, or adds it to the graph if the stream is being captured.
// `work` returns false if it cannot complete yet, for example because it waits
// for a different process, and is then called again later. At most one piece of
// work runs at a time, over all streams.
void Enqueue(Stream* stream, std::function<bool()> work);
// Returns the point after all work that has been queued on the stream.
Event Record(Stream* stream);
// Runs as much as possible of the work before the event. Returns true if all of
// that work is complete.
bool TryReach(const Event& event);
// Blocks until all work before the event is complete.
void Reach(const Event& event);
// Queues work that waits for the event.
void EnqueueWait(Stream* stream, const Event& event);
// Blocks until all work that has been queued on a GPU is complete.
void ReachAll(int device);

// The work that a stream received while it was captured.
class Graph;

// Starts to capture the stream: work that it receives until EndCapture becomes
// a graph and is not queued. During the capture, the calling thread must not do
// anything that cannot be captured.
void BeginCapture(Stream* stream);
// Ends the capture and returns the graph. Returns null if the capture is
// invalid (see SpoilsCapture), or if RefuseCaptures is in effect.
Graph* EndCapture(Stream* stream);
// Returns true, and makes the capture invalid, if the calling thread is
// capturing a stream. Called by functions that cannot be captured.
bool SpoilsCapture();
// Returns true if the stream is being captured.
bool IsCaptured(Stream* stream);
// Queues the work of the graph as one piece of work.
void Launch(const Graph& graph, Stream* stream);
Graph* CopyGraph(const Graph& graph);
void DestroyGraph(Graph* graph);
// Returns the number of launches of graphs so far.
int64_t GraphLaunches();
// If `refuse` is true, makes all captures fail from now on.
void RefuseCaptures(bool refuse);

// Makes work that is queued or captured from now on do nothing, for programs
// that only count calls.
void SkipWork();

// Returns the number of bytes copied from GPUs to the host so far.
int64_t BytesToHost();

// Numbers of calls, over all threads. Excludes operations that are captured.
struct Calls {
  int64_t copies_to_device = 0;
  int64_t copies_to_host = 0;
  // Launches of kernels, of graphs and of library operations.
  int64_t launches = 0;
  int64_t events = 0;  // Events that were recorded.
  // Waits of the host for a stream or an event.
  int64_t waits = 0;
};
// Returns the numbers of calls so far.
Calls CountCalls();
// Returns the numbers of calls between `before` and `now`.
Calls operator-(const Calls& now, const Calls& before);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
