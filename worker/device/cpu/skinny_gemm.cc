// Both functions read the matrix once, in order, and keep what they add up in
// registers: 16 partial sums hide the latency of fused multiply-adds.
#include "worker/device/cpu/skinny_gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/simd.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// Floats of a cache line, and how far ahead of its use the matrix is asked for:
// the hardware's own prefetching stops at pages, and eight rows are eight
// streams.
constexpr int64_t kLine = 16;
constexpr int64_t kAhead = 16 * kLine;

// Sixteen numbers of the matrix.
TRIBUTARY_INLINE Lanes LoadWide(const float* from) { return simd::Load(from); }
TRIBUTARY_INLINE Lanes LoadWide(const Bfloat16* from) {
  typedef uint16_t Halves
      __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
  typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));
  const Halves halves = *reinterpret_cast<const Halves*>(from);
  return reinterpret_cast<Lanes>(__builtin_convertvector(halves, Bits) << 16);
}

TRIBUTARY_INLINE float Wide(float number) { return number; }
TRIBUTARY_INLINE float Wide(Bfloat16 number) {
  const uint32_t bits = static_cast<uint32_t>(number) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

// packed[i, r] = x[r, i], 0 for r >= rows.
TRIBUTARY_INLINE void Pack(int64_t rows, int64_t inputs, const float* x,
                           float* packed) {
  std::memset(packed, 0, inputs * kLanes * sizeof(float));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < inputs; ++i) {
      packed[i * kLanes + r] = x[r * inputs + i];
    }
  }
}

// sums[o] = the products of kRows rows of w with all rows of x, in the lanes.
// Even and odd inputs are added up apart.
template <int kRows, typename W>
TRIBUTARY_INLINE void ForwardTile(int64_t inputs, const float* packed,
                                  const W* w, Lanes* sums) {
  Lanes even[kRows] = {}, odd[kRows] = {};
  int64_t i = 0;
  for (; i + kLine <= inputs; i += kLine) {
    float widened[kRows][kLine];  // Of bfloat16 numbers.
    const float* lines[kRows];
    for (int o = 0; o < kRows; ++o) {
      const W* const line = w + o * inputs + i;
      __builtin_prefetch(line + kAhead);
      if constexpr (std::is_same_v<W, float>) {
        lines[o] = line;
      } else {
        simd::Store(widened[o], LoadWide(line));
        lines[o] = widened[o];
      }
    }
    for (int64_t u = 0; u < kLine; u += 2) {
      const Lanes x0 = simd::Load(packed + (i + u) * kLanes);
      const Lanes x1 = simd::Load(packed + (i + u + 1) * kLanes);
      for (int o = 0; o < kRows; ++o) {
        even[o] += lines[o][u] * x0;
        odd[o] += lines[o][u + 1] * x1;
      }
    }
  }
  for (; i < inputs; ++i) {
    const Lanes x0 = simd::Load(packed + i * kLanes);
    for (int o = 0; o < kRows; ++o) even[o] += Wide(w[o * inputs + i]) * x0;
  }
  for (int o = 0; o < kRows; ++o) sums[o] = even[o] + odd[o];
}

template <int kRows, typename W>
TRIBUTARY_INLINE void ForwardRows(int64_t rows, int64_t inputs, int64_t outputs,
                                  const float* packed, const W* w,
                                  bool accumulate, float* y) {
  Lanes sums[kRows];
  ForwardTile<kRows>(inputs, packed, w, sums);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = y + r * outputs;
    for (int o = 0; o < kRows; ++o) {
      row[o] = accumulate ? row[o] + sums[o][r] : sums[o][r];
    }
  }
}

// dx[0, kRows), kVectors * kLanes columns += the products with kOutputs rows of
// w.
template <int kRows, int kVectors, int kOutputs, typename W>
TRIBUTARY_INLINE void BackwardTile(int64_t inputs, int64_t outputs,
                                   const float* dy, const W* w, float* dx) {
  Lanes sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = simd::Load(dx + r * inputs + v * kLanes);
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    Lanes row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = LoadWide(w + o * inputs + v * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] += dy[r * outputs + o] * row[v];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      simd::Store(dx + r * inputs + v * kLanes, sums[r][v]);
    }
  }
}

template <int kOutputs, typename W>
TRIBUTARY_INLINE void BackwardRows(int64_t rows, int64_t inputs,
                                   int64_t outputs, int64_t width,
                                   const float* dy, const W* w, float* dx) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    // The next rows of w, which the hardware cannot foresee.
    for (int o = 0; o < kOutputs; ++o) {
      const W* next = w + (kOutputs + o) * inputs + i;
      __builtin_prefetch(next);
      __builtin_prefetch(next + kLine);
    }
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) {
      BackwardTile<8, 2, kOutputs>(inputs, outputs, dy + r * outputs, w + i,
                                   dx + r * inputs + i);
    }
    for (; r < rows; ++r) {
      BackwardTile<1, 2, kOutputs>(inputs, outputs, dy + r * outputs, w + i,
                                   dx + r * inputs + i);
    }
  }
  for (; i < width; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      float sum = dx[r * inputs + i];
      for (int o = 0; o < kOutputs; ++o) {
        sum += dy[r * outputs + o] * Wide(w[o * inputs + i]);
      }
      dx[r * inputs + i] = sum;
    }
  }
}

template <typename W>
TRIBUTARY_INLINE void Forward(int64_t rows, int64_t inputs, int64_t outputs,
                              const float* x, const W* w, bool accumulate,
                              float* y, float* packed) {
  Pack(rows, inputs, x, packed);
  int64_t o = 0;
  for (; o + 8 <= outputs; o += 8) {
    ForwardRows<8>(rows, inputs, outputs, packed, w + o * inputs, accumulate,
                   y + o);
  }
  for (; o < outputs; ++o) {
    ForwardRows<1>(rows, inputs, outputs, packed, w + o * inputs, accumulate,
                   y + o);
  }
}

template <typename W>
TRIBUTARY_INLINE void BackwardInput(int64_t rows, int64_t inputs,
                                    int64_t outputs, const float* dy,
                                    const W* w, bool accumulate, float* dx) {
  // So many columns of dx stay in the caches over all of w's rows.
  constexpr int64_t kColumns = 1024;
  // So many rows of w are read beside each other: each load and store of dx
  // serves all of them.
  constexpr int kOutputs = 16;
  if (!accumulate) std::memset(dx, 0, rows * inputs * sizeof(float));
  for (int64_t i = 0; i < inputs; i += kColumns) {
    const int64_t width = std::min(kColumns, inputs - i);
    int64_t o = 0;
    for (; o + kOutputs <= outputs; o += kOutputs) {
      BackwardRows<kOutputs>(rows, inputs, outputs, width, dy + o,
                             w + o * inputs + i, dx + i);
    }
    for (; o < outputs; ++o) {
      BackwardRows<1>(rows, inputs, outputs, width, dy + o, w + o * inputs + i,
                      dx + i);
    }
  }
}

}  // namespace

TRIBUTARY_MULTIVERSION
void SkinnyForward(int64_t rows, int64_t inputs, int64_t outputs,
                   const float* x, const float* w, bool accumulate, float* y,
                   float* packed) {
  Forward(rows, inputs, outputs, x, w, accumulate, y, packed);
}

TRIBUTARY_MULTIVERSION
void SkinnyForward(int64_t rows, int64_t inputs, int64_t outputs,
                   const float* x, const Bfloat16* w, bool accumulate, float* y,
                   float* packed) {
  Forward(rows, inputs, outputs, x, w, accumulate, y, packed);
}

TRIBUTARY_MULTIVERSION
void SkinnyBackwardInput(int64_t rows, int64_t inputs, int64_t outputs,
                         const float* dy, const float* w, bool accumulate,
                         float* dx) {
  BackwardInput(rows, inputs, outputs, dy, w, accumulate, dx);
}

TRIBUTARY_MULTIVERSION
void SkinnyBackwardInput(int64_t rows, int64_t inputs, int64_t outputs,
                         const float* dy, const Bfloat16* w, bool accumulate,
                         float* dx) {
  BackwardInput(rows, inputs, outputs, dy, w, accumulate, dx);
}

}  // namespace tributary::cpu
