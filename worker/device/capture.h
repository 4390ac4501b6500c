// Operations that are recorded once and launched repeatedly.
#ifndef TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
#define TRIBUTARY_WORKER_DEVICE_CAPTURE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// Recorded operations that can be launched as a unit any number of times. Must
// not outlive the device.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// Captures the operations that are queued on a device. For devices on which
// queuing operations one by one is slow. Owned by the device, like the objects
// of Device::ops().
class Capture {
 public:
  virtual ~Capture() = default;

  // Until End, captures the operations that are queued, with their addresses
  // and arguments, instead of running them. Each operation must have run before
  // with the same sizes. Waits, events, allocation, copies from or to the host,
  // and operations of LossOps cannot be captured. If Begin returns an error,
  // nothing is captured, and End must not be called. The error is the device's
  // own, or says why capture is not possible.
  virtual absl::Status Begin() = 0;
  // Ends the capture. Returns the captured operations, or the reason why they
  // could not be captured. In neither case have they run, so they may be queued
  // again.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> End() = 0;
  // Queues the captured operations. Returns false, without any effect, if
  // internal memory that they use has moved; the operations must then be
  // captured again.
  virtual bool Launch(const CapturedWork& work) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CAPTURE_H_
