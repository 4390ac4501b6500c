// Multiples of a row.
#ifndef TRIBUTARY_WORKER_SPARSE_ADD_SCALED_H_
#define TRIBUTARY_WORKER_SPARSE_ADD_SCALED_H_

namespace tributary {

// Adds `scale` times `from` to `to`, `count` elements that do not overlap.
__attribute__((always_inline)) inline void AddScaled(
    const float* __restrict from, float scale, int count,
    float* __restrict to) {
  for (int i = 0; i < count; ++i) to[i] += scale * from[i];
}

// Has the effect of AddScaled if all elements of `to` were 0: -0 becomes 0.
__attribute__((always_inline)) inline void SetScaled(
    const float* __restrict from, float scale, int count,
    float* __restrict to) {
  for (int i = 0; i < count; ++i) to[i] = 0.f + scale * from[i];
}

// Loads a row of `count` elements into the cache.
__attribute__((always_inline)) inline void PrefetchRow(const float* row,
                                                       int count) {
  constexpr int kLineElements = 16;
  for (int i = 0; i < count; i += kLineElements) __builtin_prefetch(row + i);
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_ADD_SCALED_H_
