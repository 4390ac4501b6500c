// Operations that are recorded once and launched repeatedly.
#ifndef TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
#define TRIBUTARY_WORKER_DEVICE_CAPTURE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// Operations that a Capture has recorded, like a CUDA graph. Each call of
// Capture::Launch queues all of them. Must not outlive the device whose Capture
// recorded them.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// Captures (records) the operations that are queued on a device, as a CUDA
// graph does, so that one call can queue all of them again. Implemented by
// devices on which queuing operations one by one is slow, such as GPUs. Owned
// by the device.
class Capture {
 public:
  virtual ~Capture() = default;

  // Begins a capture. Operations that are queued between Begin and End do not
  // run; they are captured with their addresses and arguments. Each operation
  // must have run before with the same sizes, so that it neither allocates
  // memory nor loads kernels during the capture. Waits, events, allocations,
  // copies from or to the host, and operations of LossOps cannot be captured.
  // If Begin returns an error, nothing is captured, and End must not be called.
  // The error is an earlier error of the device, or states why capture is not
  // possible.
  virtual absl::Status Begin() = 0;
  // Ends the capture. Returns the captured operations, or the reason why they
  // could not be captured. In neither case have the operations run: the caller
  // must launch them or queue them again.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> End() = 0;
  // Queues the captured operations. Returns false, and queues nothing, if the
  // device has reallocated the working memory (temporary buffers) that the
  // operations use. The captured addresses are then invalid, and the operations
  // must be captured again.
  virtual bool Launch(const CapturedWork& work) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
