// Copies between host and device that run concurrently with a device's
// operations. Available only on devices with their own memory.
#ifndef TRIBUTARY_WORKER_DEVICE_COPIES_H_
#define TRIBUTARY_WORKER_DEVICE_COPIES_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// A point in a queue of operations or copies. Record sets it after everything
// queued so far, and may be called any number of times. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  // Returns whether the point has been reached; true before the first Record.
  // Returns an error if something queued before the point has failed.
  virtual absl::StatusOr<bool> Done() = 0;
  // Blocks until the point has been reached. Returns the errors of Done.
  virtual absl::Status Wait() = 0;
};

// A queue of copies. Copies of one queue run in order; copies of different
// queues are ordered only by events. After an error, or after waiting for an
// event of a failed queue, the stream copies nothing more. Not thread-safe.
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
  // Blocks until everything queued is complete. Returns the first error, and
  // from then on always the same one.
  virtual absl::Status Synchronize() = 0;

  // Returns the queue's handle for the device's libraries: a cudaStream_t.
  virtual void* handle() = 0;
};

// Creates copy streams and events for a device, and orders its operations
// relative to them. Owned by the device, like its operations.
class Copies {
 public:
  virtual ~Copies() = default;

  // Create streams and events, which must not outlive the device.
  virtual absl::StatusOr<std::unique_ptr<CopyStream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Pins host memory, so that copies to and from the device run without the
  // host. The memory must consist of whole pages. It stays pinned while the
  // handle exists, which may outlive the device. Thread-safe. Returns null if
  // pinning fails; copies still work.
  virtual std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) = 0;
  // Like the functions of CopyStream, but for the queue of the device's
  // operations.
  virtual void Record(Event* event) = 0;
  virtual void Await(const Event& event) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_COPIES_H_
