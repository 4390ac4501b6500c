// Two-dimensional convolutions by oneDNN.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_CONVOLUTION_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_CONVOLUTION_H_

#include <map>
#include <memory>

#include "worker/device/device.h"

namespace tributary::cpu {

class ConvolutionPlan;

// Runs convolutions of any shape, all tensors as worker/device/device.h lays
// them out. What oneDNN generates for a shape, and its memory, is kept from the
// first call for that shape on. One thread at a time; instances are
// independent.
class ConvolutionRunner {
 public:
  ConvolutionRunner();
  ~ConvolutionRunner();

  void Forward(const ConvolutionShape& shape, const float* x,
               const float* weight, const float* bias, float* y);
  void BackwardInput(const ConvolutionShape& shape, const float* dy,
                     const float* weight, float* dx);
  // dbias may be null.
  void BackwardWeight(const ConvolutionShape& shape, const float* x,
                      const float* dy, float* dweight, float* dbias);

 private:
  struct Less {
    bool operator()(const ConvolutionShape& a, const ConvolutionShape& b) const;
  };
  ConvolutionPlan& PlanFor(const ConvolutionShape& shape);

  std::map<ConvolutionShape, std::unique_ptr<ConvolutionPlan>, Less> plans_;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_CONVOLUTION_H_
