// A layer that is not part of Tributary.
#ifndef OWN_NETWORK_SLOPE_H_
#define OWN_NETWORK_SLOPE_H_

#include <cstdint>

#include "tributary/nn.h"

// PReLU (He et al., "Delving deep into rectifiers", 2015) with a slope for each
// feature: y = x where x > 0, else slope * x. X and Y: [samples, size].
// Parameter: "slope" [size], initially 0.25.
//   dx = dy where x > 0, else slope * dy
//   dslope = sum over the samples of x * dy where x <= 0
// Computes on the CPU in FLOAT32 only.
class Slope : public tributary::Layer {
 public:
  explicit Slope(int64_t size) : size_(size) {}

  tributary::LayerSpec Spec() const override;
  void Forward(const tributary::LayerCall& call,
               const tributary::LayerTensors& tensors) const override;
  void Backward(const tributary::LayerCall& call,
                const tributary::LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

#endif  // OWN_NETWORK_SLOPE_H_
