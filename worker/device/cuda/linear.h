// Linear layers by cuBLASLt; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Float32 products, without TF32 unless made with kTf32, or products of
// bfloat16 numbers with sums in float32. The library's heuristic chooses an
// algorithm once for each shape, among those that split a sum, if at all, into
// parts that are then added in order: bits depend on the shape, the GPU and the
// version of cuBLASLt alone. One thread at a time. `scratch` is overwritten. In
// bfloat16, which the library has no other epilogue for, biases are rounded to
// it first.
class LinearRunner {
 public:
  // With the GPU current.
  static absl::StatusOr<std::unique_ptr<LinearRunner>> Create(
      Precision precision);

  virtual ~LinearRunner() = default;

  // As Scratch's, of all the memory that it keeps for itself.
  virtual int64_t growths() const { return 0; }

  virtual void Forward(Stream& stream, Scratch& scratch,
                       const LinearShape& shape, const Real* x,
                       const Real* weight, const float* bias, Real* y) = 0;
  virtual void BackwardInput(Stream& stream, Scratch& scratch,
                             const LinearShape& shape, const Real* dy,
                             const Real* weight, bool accumulate, Real* dx) = 0;
  // Device's, with GELU in the product's epilogue, in float32 before anything
  // is rounded. False, and nothing is done, where the library cannot.
  virtual bool GeluForward(Stream& stream, Scratch& scratch,
                           const LinearShape& shape, const Real* x,
                           const Real* weight, const float* bias, Real* z,
                           Real* y) = 0;
  virtual bool GeluBackwardInput(Stream& stream, Scratch& scratch,
                                 const LinearShape& shape, const Real* dy,
                                 const Real* weight, const Real* z,
                                 Real* dz) = 0;
  // Without the bias's gradient, which is ColumnSums of bias.h: cuBLASLt's
  // epilogue for it exists for few algorithms and types.
  virtual void BackwardWeight(Stream& stream, Scratch& scratch,
                              const LinearShape& shape, const Real* x,
                              const Real* dy, bool accumulate,
                              float* dweight) = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_
