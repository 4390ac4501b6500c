// The loops of optimizer.h, to be compiled once for each instruction set.
// Internal to //common/optimizer and its test.
//
// Arrays are indexed from 0 to `count`; g is the summed gradient, w the
// weights, out the new weights. Division and square root are exactly rounded
// on every processor, so no loop needs a fixed width.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_KERNELS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "common/numerics/simd.h"
#include "common/optimizer/optimizer_factors.h"

namespace tributary::optimizer_kernels {

// The gradient: a sum in one array, or in two halves.
struct OneSum {
  const float* g;
  float scale;
  __attribute__((always_inline)) float operator()(int64_t i) const {
    return g[i] * scale;
  }
};

struct TwoSums {
  const float* g;
  const float* other;
  float scale;
  __attribute__((always_inline)) float operator()(int64_t i) const {
    return (g[i] + other[i]) * scale;
  }
};

template <typename Gradient>
TRIBUTARY_INLINE void PlainSgd(const Gradient gradient, const SgdFactors f,
                               const float* __restrict w, float* __restrict out,
                               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = w[i] - f.learning_rate * (gradient(i) + f.weight_decay * w[i]);
  }
}

template <typename Gradient>
TRIBUTARY_INLINE void Statistics(const Gradient step, const float* __restrict w,
                                 float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = w[i] - step(i);
}

// v: velocity.
template <bool kNesterov, typename Gradient>
TRIBUTARY_INLINE void MomentumSgd(const Gradient gradient, const SgdFactors f,
                                  const float* __restrict w,
                                  float* __restrict out, float* __restrict v,
                                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float decayed = gradient(i) + f.weight_decay * w[i];
    const float velocity = f.momentum * v[i] + decayed;
    v[i] = velocity;
    const float direction =
        kNesterov ? decayed + f.momentum * velocity : velocity;
    out[i] = w[i] - f.learning_rate * direction;
  }
}

// m, v: first and second moment.
template <typename Gradient>
TRIBUTARY_INLINE void Adam(const Gradient gradient, const AdamFactors f,
                           const float* __restrict w, float* __restrict out,
                           float* __restrict m, float* __restrict v,
                           int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float decayed = gradient(i) + f.weight_decay * w[i];
    const float first = f.beta1 * m[i] + f.rest1 * decayed;
    const float second = f.beta2 * v[i] + f.rest2 * (decayed * decayed);
    m[i] = first;
    v[i] = second;
    const float root = std::sqrt(second) * f.root_scale + f.epsilon;
    out[i] = f.keep * w[i] - f.step_size * (first / root);
  }
}

}  // namespace tributary::optimizer_kernels

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_KERNELS_H_
