// Linear layers and convolutions of bfloat16 numbers on the CPU.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_

#include <memory>

#include "worker/device/device.h"

namespace tributary {

// The operations of Device of the same names, with sums in float32. Where the
// processor multiplies bfloat16, oneDNN does them; elsewhere factors are
// widened and multiplied in float32, and results rounded. One thread at a time.
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

// By oneDNN's primitives; needs cpu::MultipliesBfloat16().
std::unique_ptr<Bfloat16Products> CreateDirectProducts();
// By the operations of `float32`, the CPU's device of that precision, which
// must outlive it.
std::unique_ptr<Bfloat16Products> CreateWideningProducts(Device* float32);
// The first where it works, else the second.
std::unique_ptr<Bfloat16Products> CreateBfloat16Products(Device* float32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_PRODUCTS_H_
