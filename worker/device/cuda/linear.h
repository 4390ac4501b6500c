// Linear layers using cuBLASLt; formulas and shapes as in
// worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Computes products in float32 (with TF32 only for kTf32) or products of
// bfloat16 with sums in float32. The library's heuristic chooses the algorithm
// once for each shape, among those that add the parts of a split sum in order.
// The bits therefore depend only on the shape, the GPU and the version of
// cuBLASLt. In bfloat16 biases are rounded first, because the library has no
// other epilogue. `scratch` is overwritten. Not thread-safe.
class LinearRunner {
 public:
  // The GPU must be current.
  static absl::StatusOr<std::unique_ptr<LinearRunner>> Create(
      Precision precision);

  virtual ~LinearRunner() = default;

  // Like Scratch::growths, for all internal memory.
  virtual int64_t growths() const { return 0; }

  virtual void Forward(Stream& stream, Scratch& scratch,
                       const LinearShape& shape, const Real* x,
                       const Real* weight, const float* bias, Real* y) = 0;
  virtual void BackwardInput(Stream& stream, Scratch& scratch,
                             const LinearShape& shape, const Real* dy,
                             const Real* weight, bool accumulate, Real* dx) = 0;
  // Like the functions of Device, with GELU in the product's epilogue, in
  // float32 before rounding. Return false, without any effect, if the library
  // does not support the product, or in float32: the epilogue's tanh is an
  // approximation that suffices for bfloat16 only.
  virtual bool GeluForward(Stream& stream, Scratch& scratch,
                           const LinearShape& shape, const Real* x,
                           const Real* weight, const float* bias, Real* z,
                           Real* y) = 0;
  virtual bool GeluBackwardInput(Stream& stream, Scratch& scratch,
                                 const LinearShape& shape, const Real* dy,
                                 const Real* weight, const Real* z,
                                 Real* dz) = 0;
  // Excludes the bias's gradient, which ColumnSums of bias.h computes: few
  // algorithms and types of cuBLASLt support an epilogue for it.
  virtual void BackwardWeight(Stream& stream, Scratch& scratch,
                              const LinearShape& shape, const Real* x,
                              const Real* dy, bool accumulate,
                              float* dweight) = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LINEAR_H_
