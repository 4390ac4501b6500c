// Two-dimensional convolutions using oneDNN.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_CONVOLUTION_RUNNER_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_CONVOLUTION_RUNNER_H_

#include <map>
#include <memory>

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/convolution_ops.h"
#include "worker/device/ops/real.h"

namespace tributary::cpu {

class ConvolutionPlan;

// Runs convolutions of any shape. All tensors have the layout that
// worker/device/ops/convolution_ops.h describes. The first call for a shape
// generates code with oneDNN. Keeps this code for up to 64 shapes. Calls for
// all shapes share one block of memory for the scratchpads of oneDNN and for
// copies of tensors in the layouts that oneDNN prefers. The block is as large
// as the largest call requires. Not thread-safe; instances with different
// scratch memory are independent.
class ConvolutionRunner {
 public:
  // The elements of tensors have the number format `precision`, except biases,
  // their gradients and the gradient of the weight, which are float32.
  // kBfloat16 requires that MultipliesBfloat16() of matmul_runner.h returns
  // true. Each call overwrites `scratch`, which must outlive this object.
  ConvolutionRunner(Precision precision, Scratch* scratch);
  ~ConvolutionRunner();

  void Forward(const ConvolutionShape& shape, const void* x, const void* weight,
               const float* bias, void* y);
  void BackwardInput(const ConvolutionShape& shape, const void* dy,
                     const void* weight, void* dx);
  // Computes dweight, the gradient of the weight, and dbias, the gradient of
  // the bias. Skips dbias if it is null.
  void BackwardWeight(const ConvolutionShape& shape, const void* x,
                      const void* dy, float* dweight, float* dbias);

 private:
  struct Less {
    bool operator()(const ConvolutionShape& a, const ConvolutionShape& b) const;
  };
  ConvolutionPlan& PlanFor(const ConvolutionShape& shape);

  const Precision precision_;
  Scratch* const scratch_;
  std::map<ConvolutionShape, std::unique_ptr<ConvolutionPlan>, Less> plans_;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_CONVOLUTION_RUNNER_H_
