// Layer norm over the last dimension.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_LAYER_NORM_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_LAYER_NORM_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// Normalizes each row: y = (x - mean) / sqrt(variance + epsilon) * scale +
// shift. See worker/device/device.h for the conventions of all operations.
class LayerNormOps {
 public:
  struct ForwardArguments {
    int64_t rows = 0, width = 0;
    const Real* x = nullptr;       // [rows, width]
    const float* scale = nullptr;  // [width]
    const float* shift = nullptr;  // [width]; null stands for 0.
    Real* y = nullptr;             // [rows, width]
    // Outputs of Forward that Backward needs.
    float* mean = nullptr;               // [rows]
    float* inverse_deviation = nullptr;  // [rows]
    // If `branch`, the branch of a residual connection, is not null, Forward
    // writes x + branch to `sum`, which may be `branch`, and normalizes `sum`
    // instead of x.
    const Real* branch = nullptr;  // [rows, width]
    Real* sum = nullptr;           // [rows, width]
    float epsilon = 1e-5f;
  };
  struct BackwardArguments {
    int64_t rows = 0, width = 0;
    const Real* x = nullptr;                   // [rows, width]
    const float* scale = nullptr;              // [width]
    const float* mean = nullptr;               // [rows]
    const float* inverse_deviation = nullptr;  // [rows]
    const Real* dy = nullptr;                  // [rows, width]
    bool accumulate = false;                   // True to add to dx.
    Real* dx = nullptr;                        // [rows, width]; null skips it.
    float* dscale = nullptr;                   // [width]
    float* dshift = nullptr;                   // [width]; null skips it.
  };

  virtual ~LayerNormOps() = default;

  virtual void Forward(const ForwardArguments& args) = 0;
  virtual void Backward(const BackwardArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_LAYER_NORM_OPS_H_
