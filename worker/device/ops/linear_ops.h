// Operations of linear layers.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_LINEAR_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_LINEAR_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// The shape of a linear layer: Y[rows, outputs] = X[rows, inputs] W^T + b, with
// W[outputs, inputs] as PyTorch's nn.Linear stores it.
struct LinearShape {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
};

// Linear layers and their gradients. See worker/device/device.h for the
// conventions of all operations.
class LinearOps {
 public:
  struct ForwardArguments {
    LinearShape shape;
    const Real* x = nullptr;       // [rows, inputs]
    const Real* weight = nullptr;  // [outputs, inputs]
    const float* bias = nullptr;   // [outputs]; null stands for 0.
    Real* y = nullptr;             // [rows, outputs]
  };
  struct BackwardInputArguments {
    LinearShape shape;
    const Real* dy = nullptr;      // [rows, outputs]
    const Real* weight = nullptr;  // [outputs, inputs]
    bool accumulate = false;       // True to add to dx.
    Real* dx = nullptr;            // [rows, inputs]
  };
  struct BackwardWeightArguments {
    LinearShape shape;
    const Real* x = nullptr;   // [rows, inputs]
    const Real* dy = nullptr;  // [rows, outputs]
    bool accumulate = false;   // True to add to dweight.
    float* dweight = nullptr;  // [outputs, inputs]
    float* dbias = nullptr;    // [outputs]; null skips it.
  };
  struct GeluForwardArguments {
    LinearShape shape;
    const Real* x = nullptr;       // [rows, inputs]
    const Real* weight = nullptr;  // [outputs, inputs]
    const float* bias = nullptr;   // [outputs]; null stands for 0.
    Real* z = nullptr;             // [rows, outputs]
    Real* y = nullptr;             // [rows, outputs]
  };
  struct GeluBackwardInputArguments {
    LinearShape shape;
    const Real* dy = nullptr;      // [rows, outputs]
    const Real* weight = nullptr;  // [outputs, inputs]
    const Real* z = nullptr;       // [rows, inputs]
    Real* dz = nullptr;            // [rows, inputs]
  };

  virtual ~LinearOps() = default;

  // Computes y = x weight^T + bias.
  virtual void Forward(const ForwardArguments& args) = 0;
  // Computes dx = dy weight. With `accumulate`, adds the product to dx instead.
  virtual void BackwardInput(const BackwardInputArguments& args) = 0;
  // Computes dweight = dy^T x. With `accumulate`, adds the product to dweight
  // instead. Sets dbias to the column sums of dy, also with `accumulate`.
  virtual void BackwardWeight(const BackwardWeightArguments& args) = 0;

  // The next two operations compute a linear layer followed by GELU (see
  // ElementwiseOps), and the input gradient of a linear layer that follows
  // GELU. Intermediate values need not be rounded.
  //
  // Computes z = x weight^T + bias and y = GELU(z).
  virtual void GeluForward(const GeluForwardArguments& args) = 0;
  // Computes dz, the gradient of the input z of GELU: the matrix product of dy
  // and weight, multiplied element by element by GELU'(z).
  virtual void GeluBackwardInput(const GeluBackwardInputArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_LINEAR_OPS_H_
