// Linear layers and convolutions in bfloat16 on the CPU.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_

#include <memory>

#include "worker/device/device.h"

namespace tributary {

// Implements the operations of Device with the same names, with sums in
// float32. Uses oneDNN on processors that multiply bfloat16. On others it
// widens the operands, multiplies in float32, and rounds the results. Not
// thread-safe.
class Bfloat16Products {
 public:
  virtual ~Bfloat16Products() = default;

  virtual void LinearForward(const LinearShape& shape, const Real* x,
                             const Real* weight, const float* bias,
                             Real* y) = 0;
  virtual void LinearBackwardInput(const LinearShape& shape, const Real* dy,
                                   const Real* weight, bool accumulate,
                                   Real* dx) = 0;
  virtual void LinearBackwardWeight(const LinearShape& shape, const Real* x,
                                    const Real* dy, bool accumulate,
                                    float* dweight, float* dbias) = 0;
  virtual void ConvolutionForward(const ConvolutionShape& shape, const Real* x,
                                  const Real* weight, const float* bias,
                                  Real* y) = 0;
  virtual void ConvolutionBackwardInput(const ConvolutionShape& shape,
                                        const Real* dy, const Real* weight,
                                        Real* dx) = 0;
  virtual void ConvolutionBackwardWeight(const ConvolutionShape& shape,
                                         const Real* x, const Real* dy,
                                         float* dweight, float* dbias) = 0;
};

// Uses oneDNN's primitives. Requires cpu::MultipliesBfloat16().
std::unique_ptr<Bfloat16Products> CreateDirectProducts();
// Uses the operations of `float32`, a CPU device of that precision, which must
// outlive the result.
std::unique_ptr<Bfloat16Products> CreateWideningProducts(Device* float32);
// Returns CreateDirectProducts() if the processor supports it, otherwise
// CreateWideningProducts().
std::unique_ptr<Bfloat16Products> CreateBfloat16Products(Device* float32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_
