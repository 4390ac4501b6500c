// Adds gradients in the order of the reduction tree.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_NODE_SUM_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_NODE_SUM_OPS_H_

#include <cstdint>

namespace tributary {

// Forward declaration of a protobuf enum, as in common/numerics/half.h, so that
// kernels do not depend on protocol buffers.
enum ExchangeSpec_WireDtype : int;
using WireDtype = ExchangeSpec_WireDtype;

// Rounds gradients to the number type in which workers send them, and adds
// them. Computes the nodes of the reduction tree, the binary tree in whose
// order the gradients of micro-batches are added. Results are bit-identical to
// those of common/numerics/half.h. See worker/device/device.h for the
// conventions of all operations.
class NodeSumOps {
 public:
  struct Arguments {
    WireDtype dtype = {};
    int64_t count = 0;
    const float* x = nullptr;  // [count]
    float* sum = nullptr;      // [count]
  };

  virtual ~NodeSumOps() = default;

  // Computes sum = round(x), where round() rounds to the number type `dtype`.
  virtual void Keep(const Arguments& args) = 0;
  // Computes sum = round(sum + round(x)), where round() rounds to the number
  // type `dtype`. `sum` must already be rounded.
  virtual void Add(const Arguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_NODE_SUM_OPS_H_
