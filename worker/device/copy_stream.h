// Copies between host and device that run concurrently with a device's
// operations. Available only on devices with their own memory.
#ifndef TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_
#define TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_

#include <cstddef>

namespace tributary {

// A point in a queue of operations or copies, after everything queued before
// the last Record. May be recorded any number of times. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  // Returns whether the point has been reached; true before the first Record.
  virtual bool Done() = 0;
  // Blocks until the point has been reached.
  virtual void Wait() = 0;
};

// A queue of copies. Copies of one queue run in order; only events order
// different queues. Not thread-safe.
class CopyStream {
 public:
  virtual ~CopyStream() = default;

  // Queue a copy. Both memories are in use until an event recorded after the
  // copy is done. With host memory that is not pinned, the call may block until
  // this copy and all earlier ones are complete.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, size_t bytes) = 0;

  virtual void Record(Event* event) = 0;
  // Makes everything queued from now on run after the event. Does not block the
  // host.
  virtual void Await(const Event& event) = 0;
  // Blocks until everything queued is complete.
  virtual void Synchronize() = 0;

  // Returns the queue's handle for the device's libraries: a cudaStream_t.
  virtual void* handle() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_COPY_STREAM_H_
