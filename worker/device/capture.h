// Operations that are recorded once and launched repeatedly.
#ifndef TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
#define TRIBUTARY_WORKER_DEVICE_CAPTURE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// Recorded operations that can be launched as a unit any number of times. Must
// not outlive the device that captured them.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// Captures the operations that are queued on a device, so that one call can
// queue them again. Implemented by devices on which queuing operations one by
// one is slow, such as GPUs. Owned by the device.
class Capture {
 public:
  virtual ~Capture() = default;

  // Begins a capture. Operations that are queued between Begin and End are
  // captured, with their addresses and arguments, instead of run. Each
  // operation must have run before with the same sizes. Waits, events,
  // allocations, copies from or to the host, and operations of LossOps cannot
  // be captured. If Begin returns an error, nothing is captured, and End must
  // not be called. The error is an earlier error of the device, or states why
  // capture is not possible.
  virtual absl::Status Begin() = 0;
  // Ends the capture. Returns the captured operations, or the reason why they
  // could not be captured. The operations have not run in either case, so the
  // caller may queue them again.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> End() = 0;
  // Queues the captured operations. Returns false, and queues nothing, if the
  // device's working memory, which the operations use, has moved since the
  // capture. The operations must then be captured again.
  virtual bool Launch(const CapturedWork& work) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
