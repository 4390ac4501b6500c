// Declarations for update rules. A rule is the formula that updates one
// element. It is compiled into both the CPU's loops (element_loops.h) and the
// GPU's kernel (common/optimizer/cuda/update.cu).
//
// A rule is a struct whose fields are the coefficients of its formula at one
// step, with
//   static constexpr int kSlots: number of floats of state for each weight;
//   template <typename Real>
//   TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const: returns
//     the new weight. g: gradient; w: weight; slots: the state [kSlots], which
//     it changes in place.
//   template <typename Real>
//   TRIBUTARY_ELEMENT Rule TimesRate(Real factor) const: returns the rule for
//     a learning rate that is `factor` times as large.
// Real is float or cuda::Flushed. It has + - * / <, SquareRoot, and conversions
// from and to float. Each operation rounds to float32 once, in the order of the
// formula, and treats denormal numbers as zero.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_H_
#define TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_H_

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define TRIBUTARY_ELEMENT __device__ __forceinline__
#else
// Marks a function to be inlined, so that the loop for each instruction set has
// its own copy of it.
#define TRIBUTARY_ELEMENT inline __attribute__((always_inline))
#endif

namespace tributary {

TRIBUTARY_ELEMENT float SquareRoot(float x) { return std::sqrt(x); }

// The rule for running statistics (parameters of group STATISTICS): w -= g,
// where g is the sum of what the workers have sent, times
// UpdateStep::statistics_scale.
struct StatisticsRule {
  static constexpr int kSlots = 0;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* /*slots*/) const {
    return w - g;
  }
};

// The arrays that the loops over the elements of a chunk read and write. They
// are indexed from the start of the chunk and must not overlap.
struct ElementArrays {
  const float* gradient_sum = nullptr;
  // The second part of the gradient sum; null if the sum is in one array.
  const float* other_gradient_sum = nullptr;
  // Factor by which the gradient sum is multiplied to get the gradient.
  float gradient_scale = 1;
  const float* weights = nullptr;
  float* new_weights = nullptr;
  float* const* slots = nullptr;  // One array for each slot of the rule.
  // The range of elements to update: [begin, end).
  int64_t begin = 0;
  int64_t end = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_H_
