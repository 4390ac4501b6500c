// The operations of a network's segments, captured for repeated launches.
#ifndef TRIBUTARY_WORKER_NN_SEGMENT_CAPTURES_H_
#define TRIBUTARY_WORKER_NN_SEGMENT_CAPTURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/device/device.h"

namespace tributary {

// Captures the operations of each segment (see NetworkStructure) when a second
// micro-batch of the same kind is computed, and launches them as a unit for all
// further such micro-batches. On devices that cannot capture operations, queues
// them one by one. Not thread-safe.
class SegmentCaptures {
 public:
  // Micro-batches are of the same kind if these values are equal, because
  // captured operations contain them as arguments.
  struct Kind {
    uint64_t seed = 0;
    int64_t samples = 0;
    const float* weights = nullptr;
    float* gradients = nullptr;

    bool operator==(const Kind& other) const;
  };
  enum class Pass { kForward, kBackward, kWeights };

  // `device` must outlive this object.
  SegmentCaptures(Device* device, size_t segments)
      : device_(device), segments_(segments) {}

  // Begins a micro-batch of this kind or, if `kind` is null, one whose
  // operations must not be captured.
  void Begin(const Kind* kind);
  // Returns true if operations of the micro-batch may be launched as a unit.
  // Work that captured operations do not include must then be queued before
  // Run.
  bool active() const { return current_ != nullptr && current_->computed; }
  // Launches the captured operations of the segment. If there are none, or they
  // cannot be launched, captures the operations that work() queues, and
  // launches them. If the micro-batch is not active, or capturing fails, calls
  // work() without capturing.
  void Run(Pass pass, size_t segment, absl::FunctionRef<void()> work);
  // Ends the micro-batch, all operations of which were queued.
  void End() {
    if (current_ != nullptr) current_->computed = true;
  }

  // Returns OK, or the reason why the device could not capture operations.
  // After a failure, operations are queued one by one, with the same result.
  const absl::Status& status() const { return status_; }

 private:
  using Captured = std::vector<std::unique_ptr<CapturedWork>>;
  struct Captures {
    Kind kind;
    // True once a micro-batch of this kind has been computed. Capture is
    // possible only then, because working memory has grown to the required
    // size, and libraries have selected and loaded their kernels.
    bool computed = false;
    std::array<Captured, 3> passes;  // By pass; indexed by segment.
  };

  Device* const device_;
  const size_t segments_;
  std::vector<std::unique_ptr<Captures>> captures_;
  Captures* current_ = nullptr;  // Null if nothing is captured or launched.
  absl::Status status_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_SEGMENT_CAPTURES_H_
