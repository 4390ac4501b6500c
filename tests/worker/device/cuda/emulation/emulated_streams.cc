#include "tests/worker/device/cuda/emulation/emulated_streams.h"

#include <atomic>
#include <cstdlib>
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

namespace emulated_gpu {

class Graph {
 public:
  std::vector<std::function<bool()>> work;
  bool spoilt = false;
};

namespace {

struct Queue {
  struct Piece {
    Stream* stream;
    std::function<bool()> work;
  };
  std::deque<Piece> pieces;
};

// What the thread captures.
thread_local Graph* captured = nullptr;

std::atomic<bool> refuse_captures{false};
std::atomic<int64_t> graph_launches{0};
std::atomic<bool> skip_work{false};

// Held while queued work runs.
ABSL_CONST_INIT absl::Mutex queue_mutex(absl::kConstInit);

int connections ABSL_GUARDED_BY(queue_mutex) = 0;

}  // namespace

class Stream {
 public:
  Stream(int device, std::shared_ptr<Queue> queue)
      : device(device), queue(std::move(queue)) {}

  const int device;
  const std::shared_ptr<Queue> queue;
  std::shared_ptr<Graph> capture;  // Null: it is not captured.
  int64_t queued = 0, done = 0;    // Pieces of work.
};

namespace {

std::set<Stream*>& Streams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex) {
  static auto* const streams = new std::set<Stream*>;
  return *streams;
}

std::shared_ptr<Queue> NextQueue(int device)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex) {
  if (connections == 0) return std::make_shared<Queue>();
  static auto* const queues =
      new std::map<std::pair<int, int>, std::shared_ptr<Queue>>;
  static int created[kDevices] = {};
  std::shared_ptr<Queue>& queue =
      (*queues)[{device, created[device]++ % connections}];
  if (queue == nullptr) queue = std::make_shared<Queue>();
  return queue;
}

// What `position` pieces of a stream's work wait for may be work of another.
// The first piece of a queue waits only for work queued before it, so that no
// piece runs twice.
bool RunTo(Stream* stream, int64_t position)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex) {
  std::deque<Queue::Piece>& pieces = stream->queue->pieces;
  while (stream->done < position) {
    if (!pieces.front().work()) return false;
    ++pieces.front().stream->done;
    pieces.pop_front();
  }
  return true;
}

}  // namespace

Stream* CreateStream(int device) {
  absl::MutexLock lock(&queue_mutex);
  auto* const stream = new Stream(device, NextQueue(device));
  Streams().insert(stream);
  return stream;
}

// The object stays: events of the stream may still be waited for, and no new
// stream gets its address and is mistaken for it.
void DestroyStream(Stream*) {}

int DeviceOf(const Stream* stream) { return stream->device; }

void SetConnections(int queues) {
  absl::MutexLock lock(&queue_mutex);
  connections = queues;
}

void Enqueue(Stream* stream, std::function<bool()> work) {
  if (skip_work) work = [] { return true; };
  absl::MutexLock lock(&queue_mutex);
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->queue->pieces.push_back({stream, std::move(work)});
    ++stream->queued;
  }
}

Event Record(Stream* stream) {
  absl::MutexLock lock(&queue_mutex);
  return {stream->device, stream, stream->queued};
}

bool TryReach(const Event& event) {
  if (event.stream == nullptr) return true;
  absl::MutexLock lock(&queue_mutex);
  return RunTo(event.stream, event.position);
}

void Reach(const Event& event) {
  while (!TryReach(event)) std::this_thread::yield();
}

void EnqueueWait(Stream* stream, const Event& event) {
  Enqueue(stream, [event]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return event.stream == nullptr || RunTo(event.stream, event.position);
  });
}

void ReachAll(int device) {
  std::vector<Event> queued;
  {
    absl::MutexLock lock(&queue_mutex);
    for (Stream* stream : Streams()) {
      if (stream->device != device) continue;
      queued.push_back({device, stream, stream->queued});
    }
  }
  for (const Event& event : queued) Reach(event);
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

bool IsCaptured(Stream* stream) {
  absl::MutexLock lock(&queue_mutex);
  return stream->capture != nullptr;
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

Graph* CopyGraph(const Graph& graph) { return new Graph(graph); }
void DestroyGraph(Graph* graph) { delete graph; }

int64_t GraphLaunches() { return graph_launches; }
void RefuseCaptures(bool refuse) { refuse_captures = refuse; }
void SkipWork() { skip_work = true; }

}  // namespace emulated_gpu
