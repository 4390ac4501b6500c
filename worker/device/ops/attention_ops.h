// Multi-head attention.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_ATTENTION_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_ATTENTION_OPS_H_

#include <cstdint>

#include "common/numerics/philox.h"
#include "worker/device/ops/real.h"

namespace tributary {

struct AttentionShape {
  int64_t batch = 0, time = 0, heads = 0, head_size = 0;
  // If true, query i attends to the keys 0 to i. If false, it attends to all
  // keys.
  bool causal = true;
};

// Multi-head attention, as in worker/nn/layers/attention.h. Scores are divided
// by sqrt(head_size). If `lengths` is not null, only the first lengths[b]
// positions of sequence b take part: their queries attend only to their keys.
// The results of the remaining positions, in y and dqkv, are 0, and the inputs
// of these positions have no effect. `lengths` must be null if the shape is
// causal. If `rate` is above 0, dropout applies to the probabilities: for
// sequence b, head h, query i and key j, it uses random number ((b * heads + h)
// * time + i) * time + j of `stream`. See worker/device/device.h for the
// conventions of all operations.
class AttentionOps {
 public:
  struct ForwardArguments {
    AttentionShape shape;
    const Real* qkv = nullptr;  // [batch, time, 3, heads, head_size]
    RandomStream stream;
    float rate = 0;                    // In [0, 1).
    Real* y = nullptr;                 // [batch, time, heads, head_size]
    float* saved = nullptr;            // [SavedElements(shape)]
    const int32_t* lengths = nullptr;  // [batch], each in [1, time]; or null.
  };
  struct BackwardArguments {
    AttentionShape shape;
    const Real* qkv = nullptr;     // [batch, time, 3, heads, head_size]
    const Real* y = nullptr;       // [batch, time, heads, head_size]
    const float* saved = nullptr;  // Output of Forward.
    const Real* dy = nullptr;      // Shape of y.
    RandomStream stream;
    float rate = 0;                    // In [0, 1).
    Real* dqkv = nullptr;              // Shape of qkv.
    const int32_t* lengths = nullptr;  // As in Forward.
  };

  // The shape of a key-value cache for incremental attention, which generates
  // one sequence token by token. The cache holds the keys and values of up to
  // `capacity` positions.
  struct CacheShape {
    int64_t heads = 0, head_size = 0, capacity = 0;
  };
  struct DecodeArguments {
    CacheShape shape;
    // Number of positions in the cache, and number of positions to add to it,
    // which is at least 1. The sum of both is at most shape.capacity.
    int64_t past = 0, count = 0;
    const Real* qkv = nullptr;  // [count, 3, heads, head_size]
    // The key-value cache: CacheElements(shape) floats, in a layout that the
    // device defines.
    float* cache = nullptr;
    Real* y = nullptr;  // [count, heads, head_size]
  };

  virtual ~AttentionOps() = default;

  // Returns the number of floats that Forward saves for Backward: for each
  // query and head, the logarithm of the sum of the exponentials of its scores.
  virtual int64_t SavedElements(const AttentionShape& shape) const = 0;
  virtual void Forward(const ForwardArguments& args) = 0;
  virtual void Backward(const BackwardArguments& args) = 0;

  // Returns the number of floats of the key-value cache that Decode uses.
  virtual int64_t CacheElements(const CacheShape& shape) const = 0;
  // Adds the keys and values of positions past, ..., past + count - 1 to the
  // cache, overwriting any that it holds there, and computes attention for
  // these positions. Except for rounding, y equals the output of Forward at
  // these positions, if Forward is given the qkv of all positions.
  virtual void Decode(const DecodeArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_ATTENTION_OPS_H_
