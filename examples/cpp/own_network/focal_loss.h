// A loss that is not part of Tributary.
#ifndef OWN_NETWORK_FOCAL_LOSS_H_
#define OWN_NETWORK_FOCAL_LOSS_H_

#include <cstdint>

#include "tributary/nn.h"

// Focal loss (Lin et al., "Focal loss for dense object detection", 2017): with
// the probability p = softmax(x)[label],
//   loss = -(1 - p)^focus ln p
// Samples that the network classifies well contribute less than with softmax
// cross-entropy, which is the loss for focus = 0.
class FocalLoss : public tributary::LossFunction {
 public:
  FocalLoss(int64_t classes, double focus) : classes_(classes), focus_(focus) {}

  Targets targets() const override { return Targets::kLabels; }
  Sums Compute(const Arguments& args) const override;

 private:
  const int64_t classes_;
  const double focus_;
};

#endif  // OWN_NETWORK_FOCAL_LOSS_H_
