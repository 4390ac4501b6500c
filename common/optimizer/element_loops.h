// Loops that apply rules to arrays on the CPU. Internal to //common/optimizer
// and its test.
//
// Division and square root are exactly rounded on every processor, so the
// vector width does not affect the bits.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_LOOPS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/numerics/simd.h"
#include "common/optimizer/element.h"

namespace tributary::element_loops {

// Function objects that return element i of the gradient: the sum of gradients
// times `scale`. The sum is in one array (OneSum), or in two arrays that must
// be added (TwoSums).
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

// Updates `count` elements with the optimizer's rule `rule`. `w` holds the
// weights, `out` receives the new weights, and `slots` are the arrays of the
// optimizer's state, one for each slot of the rule. All arrays have `count`
// elements. The arrays are separate parameters, because __restrict has no
// effect on the elements of an array.
template <typename Rule, typename Gradient, typename... Slot>
TRIBUTARY_INLINE void UpdateAll(const Rule rule, const Gradient gradient,
                                const float* __restrict w,
                                float* __restrict out, int64_t count,
                                Slot* __restrict... slots) {
  for (int64_t i = 0; i < count; ++i) {
    float state[] = {slots[i]..., 0.f};  // The 0 makes it nonempty.
    out[i] = rule.Update(gradient(i), w[i], state);
    const float* changed = state;
    ((slots[i] = *changed++), ...);
  }
}

template <typename Rule, typename Gradient, size_t... kSlot>
TRIBUTARY_INLINE void UpdateSlots(const Rule& rule, const Gradient gradient,
                                  const ElementArrays& a,
                                  std::index_sequence<kSlot...>) {
  UpdateAll(rule, gradient, a.weights + a.begin, a.new_weights + a.begin,
            a.end - a.begin, (a.slots[kSlot] + a.begin)...);
}

template <typename Rule>
TRIBUTARY_INLINE void Update(const Rule& rule, const ElementArrays& a) {
  constexpr auto kSlots = std::make_index_sequence<Rule::kSlots>();
  if (a.other_gradient_sum == nullptr) {
    const OneSum gradient = {a.gradient_sum + a.begin, a.gradient_scale};
    UpdateSlots(rule, gradient, a, kSlots);
  } else {
    const TwoSums gradient = {a.gradient_sum + a.begin,
                              a.other_gradient_sum + a.begin, a.gradient_scale};
    UpdateSlots(rule, gradient, a, kSlots);
  }
}

}  // namespace tributary::element_loops

// Defines UpdateElements for a rule, compiled for each instruction set. Not
// inlined, so that no arithmetic moves out of the scope of FlushDenormals.
// Structures are passed by reference, because copying one that was just written
// stalls until all earlier stores are complete.
#define TRIBUTARY_DEFINE_UPDATE_ELEMENTS(Rule)                          \
  TRIBUTARY_MULTIVERSION __attribute__((noinline)) void UpdateElements( \
      const Rule& rule, const ElementArrays& arrays) {                  \
    element_loops::Update(rule, arrays);                                \
  }

#endif  // TRIBUTARY_COMMON_OPTIMIZER_ELEMENT_LOOPS_H_
