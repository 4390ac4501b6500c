// Copies between host and device that run concurrently with a device's
// operations. Available only on devices with their own memory.
#ifndef TRIBUTARY_WORKER_DEVICE_COPIES_H_
#define TRIBUTARY_WORKER_DEVICE_COPIES_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/device_memory_handle.h"

namespace tributary {

// A point in a queue of operations or copies, like a CUDA event.
// CopyStream::Record and Copies::Record set the point: it is reached when
// everything that was queued before the call is complete. An event may be
// recorded any number of times. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  // Returns true if everything queued before the last recording of the event is
  // complete, or if the event has never been recorded. Returns an error if any
  // of it has failed.
  virtual absl::StatusOr<bool> Done() = 0;
  // Blocks until Done would return true or an error. Returns the errors of
  // Done.
  virtual absl::Status Wait() = 0;
};

// A queue of copies. Copies of one queue run in order; copies of different
// queues are ordered only by events. A queue that has failed copies nothing
// more. A queue also fails if it awaits an event that a failed queue has
// recorded. Not thread-safe.
class CopyStream {
 public:
  virtual ~CopyStream() = default;

  // CopyFromHost and CopyToHost queue a copy. The memory at `from` and `to` is
  // in use until an event that is recorded after the call has been reached. If
  // the host memory is not pinned, the call may block until this copy and all
  // earlier ones are complete.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Queues a copy within device memory. `to` and `from` point to device memory
  // of this process, or to memory of another process that Copies::MapMemory has
  // mapped.
  virtual void CopyOnDevice(void* to, const void* from, size_t bytes) = 0;

  // Sets `event` to the point after everything queued so far.
  virtual void Record(Event* event) = 0;
  // Delays everything queued from now on until `event` is reached. Does not
  // block the host.
  virtual void Await(const Event& event) = 0;
  // Blocks until everything queued is complete. Returns the first error, or OK.
  // After an error, all calls return the same error.
  virtual absl::Status Synchronize() = 0;

  // Returns the queue's cudaStream_t, which libraries such as NCCL take as an
  // argument.
  virtual void* handle() = 0;
};

// Creates copy streams and events for a device. Can delay the device's
// operations until copies are complete, and copies until operations are
// complete. Owned by the device.
class Copies {
 public:
  virtual ~Copies() = default;

  // CreateStream and CreateEvent create objects that must not outlive the
  // device. They return CUDA's error if creation fails.
  virtual absl::StatusOr<std::unique_ptr<CopyStream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Pins host memory, so that copies to and from the device do not block the
  // host. The memory must begin with a page, and share its last page with no
  // other pinned memory. It stays pinned while the returned handle exists; the
  // handle may outlive the device. Thread-safe. Returns null if pinning fails;
  // copies from and to the memory are then correct, but may block.
  virtual std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) = 0;
  // Maps device memory of another process of this host, so that copies and
  // operations can use it. The caller must end the mapping before the device is
  // destroyed, and only after all queued work that uses the memory is complete.
  // Thread-safe. Returns FailedPrecondition, with the reason, if the memory
  // cannot be mapped.
  virtual absl::StatusOr<std::shared_ptr<float>> MapMemory(
      const DeviceMemoryHandle& handle) = 0;
  // Returns true if memory that MapMemory has mapped belongs to this device,
  // and false if this device accesses the memory of a different device, which
  // is slower. Thread-safe.
  virtual bool OwnsMemory(const float* /*mapped*/) const { return false; }
  // Record sets `event` to the point after all operations queued on the device
  // so far. Await delays all operations queued on the device from now on until
  // `event` is reached, and does not block the host.
  virtual void Record(Event* event) = 0;
  virtual void Await(const Event& event) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_COPIES_H_
