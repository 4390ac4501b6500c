// Adds gradients and updates weights in a device's memory. Used by workers that
// hold the weights themselves and exchange gradients with each other
// (all-reduce).
#ifndef TRIBUTARY_WORKER_DEVICE_REDUCTION_STREAM_H_
#define TRIBUTARY_WORKER_DEVICE_REDUCTION_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/trust_ratios.h"
#include "worker/device/copies.h"

namespace tributary {

// A queue of operations on gradients, weights and the optimizer's state in a
// device's memory. It runs concurrently with the queues of the Devices that
// compute the gradients. Its results are bit-identical to those of the CPU.
// Operations run in the order of their calls; only events order them relative
// to other queues.
//
// After its first error, a stream runs no operations. Synchronize, CopyOut and
// SumSquares return the error, and so does Event::Wait of events that Record
// has returned. The error names the operation and the device.
//
// Thread-safe, except that calls of SumSquares, SumTensorSquares and Update
// must not overlap. Only CopyIn, CopyOut, SumSquares, SumTensorSquares,
// Synchronize and Allocate block, until the operations queued before are
// complete. Arrays must stay valid until an event that is recorded after the
// operation has been reached.
class ReductionStream {
 public:
  struct Plan {
    const ArenaLayout* layout = nullptr;  // Must outlive the stream.
    // The chunks (slices of the parameters; see ArenaLayout) whose optimizer
    // state the stream keeps. All state is initially zero. `slots` is
    // Optimizer::slots(), the number of floats of state for each weight.
    std::vector<int> chunks;
    int slots = 0;
    bool has_trust_ratios = false;  // See Optimizer.
  };

  virtual ~ReductionStream() = default;

  // Returns device memory for `elements` floats, with unspecified contents. The
  // buffer may outlive the stream. Throws std::bad_alloc, like
  // BufferPool::Take, if memory does not suffice.
  virtual Buffer Allocate(int64_t elements) = 0;
  // CopyIn copies `count` floats from host memory to the device, and CopyOut
  // copies `count` floats from the device to host memory. Both block until the
  // copy is complete.
  virtual void CopyIn(const float* host, int64_t count, float* to) = 0;
  virtual absl::Status CopyOut(const float* from, int64_t count,
                               float* host) = 0;

  // Returns an event at the point after everything queued so far. Never null:
  // if no event can be created, the stream fails, and the event that is
  // returned has the stream's error.
  virtual std::shared_ptr<Event> Record() = 0;

  // Computes sum[i] += x[i], for i < count.
  virtual void Add(const float* x, int64_t count, float* sum) = 0;
  // Computes to[i] = x[i], for i < count.
  virtual void Copy(const float* x, int64_t count, float* to) = 0;

  // The sum of a batch's gradients for one chunk, in device memory.
  struct GradientSum {
    int chunk = 0;
    const float* sum = nullptr;
  };
  // For each of `gradients`, in their order, returns the sum of the squares of
  // the elements. The sums equal those of GradientSquares.
  virtual absl::StatusOr<std::vector<double>> SumSquares(
      absl::Span<const GradientSum> gradients) = 0;

  // The arrays of the update of one chunk, in device memory. `new_weights` is
  // computed from `gradient_sum` and `weights`; see UpdateArguments.
  struct UpdateArrays {
    int chunk = 0;
    const float* gradient_sum = nullptr;
    const float* weights = nullptr;
    float* new_weights = nullptr;
    // As in ChunkPass::Arguments.
    absl::Span<const float> trust_ratios = {};
  };
  // For each of `updates`, in their order, returns what
  // ChunkPass::SumTensorSquares returns. `direction` has the rule of
  // Optimizer::DirectionAt. Does not use UpdateArrays::new_weights. Allowed
  // only if Plan::has_trust_ratios is set.
  virtual absl::StatusOr<std::vector<std::vector<TensorSquares>>>
  SumTensorSquares(const OptimizerStep& direction,
                   absl::Span<const UpdateArrays> updates) = 0;
  // Queues the update of the weights and the optimizer state of several chunks,
  // which must be in Plan::chunks. One kernel updates several chunks, so one
  // call for many chunks is faster than many calls.
  virtual void Update(const OptimizerStep& step,
                      absl::Span<const UpdateArrays> updates) = 0;
  // Returns array number `slot` (below Plan::slots) of the chunk's optimizer
  // state, in device memory, so that the caller can copy the state from or to
  // the host. Returns null if the chunk is not in Plan::chunks.
  virtual float* slot(int chunk, int slot) = 0;

  virtual absl::Status Synchronize() = 0;
};

// Creates a ReductionStream on the GPU with the PCI address `bus_id` (see
// Device::bus_id). Returns NotFound if this process can use no GPU with this
// address, ResourceExhausted if memory for the optimizer's state does not
// suffice, and CUDA's error if CUDA fails.
using ReductionStreamMaker =
    std::function<absl::StatusOr<std::unique_ptr<ReductionStream>>(
        const std::string& bus_id, const ReductionStream::Plan& plan)>;

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_REDUCTION_STREAM_H_
