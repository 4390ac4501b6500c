// Copies between host and device that run beside a device's operations. Only
// devices with memory of their own have them.
#ifndef TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_
#define TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_

#include <cstddef>

namespace tributary {

// A point in the work that a device or a copy stream was given: after all that
// was queued before the last Record. May be recorded any number of times. One
// thread at a time.
class Event {
 public:
  virtual ~Event() = default;

  // Whether the point has been reached; true before the first Record.
  virtual bool Done() = 0;
  // Returns when it has.
  virtual void Wait() = 0;
};

// A queue of its own. Copies run in their order; between queues there is none
// but by events. One thread at a time.
class CopyStream {
 public:
  virtual ~CopyStream() = default;

  // Both memories are in use until an event behind the copy is done. From and
  // to host memory that is not pinned, the call may wait for the copy, and for
  // all before it.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, size_t bytes) = 0;

  virtual void Record(Event* event) = 0;
  // What is queued from now on runs after the event. The host does not wait.
  virtual void Await(const Event& event) = 0;
  // Returns when all that was queued has been done.
  virtual void Synchronize() = 0;

  // What the device's libraries know the queue by: a cudaStream_t.
  virtual void* handle() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_
