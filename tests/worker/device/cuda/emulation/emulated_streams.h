// Streams, events and graphs of the emulated GPUs.
//
// Work runs as late as CUDA allows: when something waits for it, or asks
// whether it is done. Results read before a wait are therefore old, and memory
// overwritten too early is read as it is then: code that lacks a wait computes
// wrong results every time.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/worker/device/cuda/emulation/emulated_devices.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"

namespace emulated_gpu {

class Stream;

// A point in a stream's work.
struct Event {
  int device = 0;
  Stream* stream = nullptr;  // Null: never recorded.
  int64_t position = 0;
};

Stream* CreateStream(int device);
// Like CUDA, waits for nothing: queued work runs some time later.
void DestroyStream(Stream* stream);
int DeviceOf(const Stream* stream);

// Streams created from now on share so many queues of their GPU in turn, as
// with CUDA_DEVICE_MAX_CONNECTIONS: work of a queue runs in the order of its
// calls, whatever its stream, so that work which waits for another process
// delays the work of other streams. 0, the default: each stream has its own.
void SetConnections(int queues);

// Queues work, or captures it. It returns false where it cannot be done yet (it
// waits for another process, say), and is called again later. Not more than one
// piece of work runs at a time, whatever its stream.
void Enqueue(Stream* stream, std::function<bool()> work);
Event Record(Stream* stream);
// Runs what can be run before the event: whether that was all.
bool TryReach(const Event& event);
// Until all before the event has run.
void Reach(const Event& event);
// Queues work that waits for the event.
void EnqueueWait(Stream* stream, const Event& event);
// Until all work queued so far on a GPU has run.
void ReachAll(int device);

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
bool IsCaptured(Stream* stream);
// Queues what was captured as one piece of work.
void Launch(const Graph& graph, Stream* stream);
Graph* CopyGraph(const Graph& graph);
void DestroyGraph(Graph* graph);
// Of all, so far.
int64_t GraphLaunches();
// From now on, all captures fail.
void RefuseCaptures(bool refuse);

// From now on, work that is queued or captured does nothing, for programs that
// only count calls.
void SkipWork();

// Copied so far.
int64_t BytesToHost();

// Numbers of calls so far, of all threads. What is captured is not counted.
struct Calls {
  int64_t copies_to_device = 0;
  int64_t copies_to_host = 0;
  // Launches of a kernel, a graph or a library's operation.
  int64_t launches = 0;
  int64_t events = 0;  // Recorded.
  // Waits of the host for a stream or an event.
  int64_t waits = 0;
};
Calls CountCalls();
// The calls since `before`.
Calls operator-(const Calls& now, const Calls& before);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_STREAMS_H_
