// Both functions read the matrix once, in order, and keep their sums in
// registers.
#include "worker/device/cpu/products/skinny_gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/numerics/simd.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// Number of floats in a cache line, and prefetch distance for the matrix.
// Hardware prefetching stops at page boundaries, and eight rows form eight
// streams.
constexpr int64_t kLine = 16;
constexpr int64_t kAhead = 16 * kLine;

// Number of sums kept in registers: enough to hide the latency of additions,
// and no more than there are registers. It never changes the order of additions
// within a sum.
struct WideRegisters {  // 32 registers of sixteen floats.
  using Vector = Lanes;
  static constexpr int kForwardRows = 8;
  static constexpr int kBackwardRows = 8, kBackwardVectors = 2;
};
struct NarrowRegisters {  // 16 registers of eight floats.
  using Vector = simd::HalfLanes;
  static constexpr int kForwardRows = 2;
  static constexpr int kBackwardRows = 4, kBackwardVectors = 2;
};

// Loads of matrix elements.
template <typename Vector>
TRIBUTARY_INLINE Vector LoadWide(const float* from) {
  return simd::Load<Vector>(from);
}
template <typename Vector>
TRIBUTARY_INLINE Vector LoadWide(const Bfloat16* from) {
  if constexpr (sizeof(Vector) == sizeof(simd::HalfLanes)) {
    typedef uint16_t Halves
        __attribute__((vector_size(kLanes), aligned(2), may_alias));
    typedef uint32_t Bits __attribute__((vector_size(2 * kLanes)));
    const Halves halves = *reinterpret_cast<const Halves*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(halves, Bits)
                                    << 16);
  } else {
    typedef uint16_t Halves
        __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
    typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));
    const Halves halves = *reinterpret_cast<const Halves*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(halves, Bits)
                                    << 16);
  }
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

// Sums of kRows rows of w with all rows of x, which are the lanes. Even and odd
// inputs are summed separately.
template <int kRows>
struct ForwardSums {
  alignas(64) float even[kRows][kLanes];
  alignas(64) float odd[kRows][kLanes];
};

// Adds inputs [begin, end), whole cache lines, of rows [first, first + kRows).
template <typename Vector, int kRows, int kAllRows, typename W>
TRIBUTARY_INLINE void ForwardLines(int64_t begin, int64_t end, int64_t inputs,
                                   int first, const float* packed, const W* w,
                                   ForwardSums<kAllRows>* sums) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  constexpr int kVectors = kLanes / kWidth;
  Vector even[kRows][kVectors], odd[kRows][kVectors];
  for (int o = 0; o < kRows; ++o) {
    for (int v = 0; v < kVectors; ++v) {
      even[o][v] = simd::Load<Vector>(sums->even[first + o] + v * kWidth);
      odd[o][v] = simd::Load<Vector>(sums->odd[first + o] + v * kWidth);
    }
  }
  for (int64_t i = begin; i < end; i += kLine) {
    float widened[kRows][kLine];  // bfloat16 numbers as float32.
    const float* lines[kRows];
    for (int o = 0; o < kRows; ++o) {
      const W* const line = w + (first + o) * inputs + i;
      __builtin_prefetch(line + kAhead);
      if constexpr (std::is_same_v<W, float>) {
        lines[o] = line;
      } else {
        for (int j = 0; j < kLine; j += kWidth) {
          simd::Store(widened[o] + j, LoadWide<Vector>(line + j));
        }
        lines[o] = widened[o];
      }
    }
    for (int64_t u = 0; u < kLine; u += 2) {
      const float* const x = packed + (i + u) * kLanes;
      for (int v = 0; v < kVectors; ++v) {
        const Vector x0 = simd::Load<Vector>(x + v * kWidth);
        const Vector x1 = simd::Load<Vector>(x + kLanes + v * kWidth);
        for (int o = 0; o < kRows; ++o) {
          even[o][v] += lines[o][u] * x0;
          odd[o][v] += lines[o][u + 1] * x1;
        }
      }
    }
  }
  for (int o = 0; o < kRows; ++o) {
    for (int v = 0; v < kVectors; ++v) {
      simd::Store(sums->even[first + o] + v * kWidth, even[o][v]);
      simd::Store(sums->odd[first + o] + v * kWidth, odd[o][v]);
    }
  }
}

template <typename Registers, int kRows, typename W>
TRIBUTARY_INLINE void ForwardTile(int64_t inputs, const float* packed,
                                  const W* w, ForwardSums<kRows>* sums) {
  constexpr int kStep = std::min(kRows, Registers::kForwardRows);
  static_assert(kRows % kStep == 0, "");
  const int64_t lines = inputs / kLine * kLine;
  // Number of inputs for which x stays in the first-level cache for all rows.
  const int64_t block = kStep == kRows ? lines : 128;
  for (int64_t begin = 0; begin < lines; begin += block) {
    const int64_t end = std::min(lines, begin + block);
    for (int first = 0; first < kRows; first += kStep) {
      ForwardLines<typename Registers::Vector, kStep>(begin, end, inputs, first,
                                                      packed, w, sums);
    }
  }
  for (int64_t i = lines; i < inputs; ++i) {
    const Lanes x = simd::Load(packed + i * kLanes);
    for (int o = 0; o < kRows; ++o) {
      simd::Store(sums->even[o],
                  simd::Load(sums->even[o]) + Wide(w[o * inputs + i]) * x);
    }
  }
}

template <typename Registers, int kRows, typename W>
TRIBUTARY_INLINE void ForwardRows(int64_t rows, int64_t inputs, int64_t outputs,
                                  const float* packed, const W* w,
                                  bool accumulate, float* y) {
  ForwardSums<kRows> sums = {};
  ForwardTile<Registers>(inputs, packed, w, &sums);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = y + r * outputs;
    for (int o = 0; o < kRows; ++o) {
      const float sum = sums.even[o][r] + sums.odd[o][r];
      row[o] = accumulate ? row[o] + sum : sum;
    }
  }
}

// Adds to dx[0, kRows), in the columns of kVectors vectors, the products with
// kOutputs rows of w, which are `stride` apart.
template <typename Vector, int kRows, int kVectors, int kOutputs>
TRIBUTARY_INLINE void BackwardTile(int64_t inputs, int64_t outputs,
                                   const float* dy, const float* w,
                                   int64_t stride, float* dx) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = simd::Load<Vector>(dx + r * inputs + v * kWidth);
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = simd::Load<Vector>(w + o * stride + v * kWidth);
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] += dy[r * outputs + o] * row[v];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      simd::Store(dx + r * inputs + v * kWidth, sums[r][v]);
    }
  }
}

template <typename Registers, int kOutputs, typename W>
TRIBUTARY_INLINE void BackwardRows(int64_t rows, int64_t inputs,
                                   int64_t outputs, int64_t width,
                                   const float* dy, const W* w, float* dx) {
  using Vector = typename Registers::Vector;
  constexpr int kRows = Registers::kBackwardRows;
  constexpr int kVectors = Registers::kBackwardVectors;
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  constexpr int64_t kColumns = 2 * kLine;
  // Rows of w are often a power of two apart and then compete for the same
  // cache sets, so data that is read more than once is copied.
  constexpr bool kCopies = kRows < 8 || !std::is_same_v<W, float>;
  alignas(64) float copy[kOutputs * kColumns];
  int64_t i = 0;
  for (; i + kColumns <= width; i += kColumns) {
    // Prefetch the next rows of w, which the hardware cannot predict.
    for (int o = 0; o < kOutputs; ++o) {
      const W* next = w + (kOutputs + o) * inputs + i;
      __builtin_prefetch(next);
      __builtin_prefetch(next + kLine);
    }
    const float* block = nullptr;
    int64_t stride = 0;
    if constexpr (kCopies) {
      for (int o = 0; o < kOutputs; ++o) {
        for (int64_t j = 0; j < kColumns; j += kWidth) {
          simd::Store(copy + o * kColumns + j,
                      LoadWide<Vector>(w + o * inputs + i + j));
        }
      }
      block = copy;
      stride = kColumns;
    } else {
      block = w + i;
      stride = inputs;
    }
    for (int64_t j = 0; j < kColumns; j += kVectors * kWidth) {
      int64_t r = 0;
      for (; r + kRows <= rows; r += kRows) {
        BackwardTile<Vector, kRows, kVectors, kOutputs>(
            inputs, outputs, dy + r * outputs, block + j, stride,
            dx + r * inputs + i + j);
      }
      for (; r < rows; ++r) {
        BackwardTile<Vector, 1, kVectors, kOutputs>(
            inputs, outputs, dy + r * outputs, block + j, stride,
            dx + r * inputs + i + j);
      }
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

template <typename Registers, typename W>
TRIBUTARY_INLINE void Forward(int64_t rows, int64_t inputs, int64_t outputs,
                              const float* x, const W* w, bool accumulate,
                              float* y, float* packed) {
  Pack(rows, inputs, x, packed);
  int64_t o = 0;
  for (; o + 8 <= outputs; o += 8) {
    ForwardRows<Registers, 8>(rows, inputs, outputs, packed, w + o * inputs,
                              accumulate, y + o);
  }
  for (; o < outputs; ++o) {
    ForwardRows<Registers, 1>(rows, inputs, outputs, packed, w + o * inputs,
                              accumulate, y + o);
  }
}

template <typename Registers, typename W>
TRIBUTARY_INLINE void BackwardInput(int64_t rows, int64_t inputs,
                                    int64_t outputs, const float* dy,
                                    const W* w, bool accumulate, float* dx) {
  // Number of columns of dx that stay in the caches for all rows of w.
  constexpr int64_t kColumns = 1024;
  // Number of rows of w read together, so that each load and store of dx serves
  // all of them.
  constexpr int kOutputs = 16;
  if (!accumulate) std::memset(dx, 0, rows * inputs * sizeof(float));
  for (int64_t i = 0; i < inputs; i += kColumns) {
    const int64_t width = std::min(kColumns, inputs - i);
    int64_t o = 0;
    for (; o + kOutputs <= outputs; o += kOutputs) {
      BackwardRows<Registers, kOutputs>(rows, inputs, outputs, width, dy + o,
                                        w + o * inputs + i, dx + i);
    }
    for (; o < outputs; ++o) {
      BackwardRows<Registers, 1>(rows, inputs, outputs, width, dy + o,
                                 w + o * inputs + i, dx + i);
    }
  }
}

// Separate functions, because templates cannot be multiversioned, and because
// GCC keeps fewer sums in registers if one function contains both kinds.
#define TRIBUTARY_SKINNY_GEMM(kind, versions, W)                              \
  versions void kind##Forward(int64_t rows, int64_t inputs, int64_t outputs,  \
                              const float* x, const W* w, bool accumulate,    \
                              float* y, float* packed) {                      \
    Forward<kind##Registers>(rows, inputs, outputs, x, w, accumulate, y,      \
                             packed);                                         \
  }                                                                           \
  versions void kind##BackwardInput(int64_t rows, int64_t inputs,             \
                                    int64_t outputs, const float* dy,         \
                                    const W* w, bool accumulate, float* dx) { \
    BackwardInput<kind##Registers>(rows, inputs, outputs, dy, w, accumulate,  \
                                   dx);                                       \
  }
TRIBUTARY_SKINNY_GEMM(Wide, TRIBUTARY_WIDE_VERSION, float)
TRIBUTARY_SKINNY_GEMM(Wide, TRIBUTARY_WIDE_VERSION, Bfloat16)
TRIBUTARY_SKINNY_GEMM(Narrow, TRIBUTARY_NARROW_VERSIONS, float)
TRIBUTARY_SKINNY_GEMM(Narrow, TRIBUTARY_NARROW_VERSIONS, Bfloat16)
#undef TRIBUTARY_SKINNY_GEMM

}  // namespace

template <typename W>
void SkinnyForward(int64_t rows, int64_t inputs, int64_t outputs,
                   const float* x, const W* w, bool accumulate, float* y,
                   float* packed) {
  if (simd::HasWideRegisters()) {
    WideForward(rows, inputs, outputs, x, w, accumulate, y, packed);
  } else {
    NarrowForward(rows, inputs, outputs, x, w, accumulate, y, packed);
  }
}

template <typename W>
void SkinnyBackwardInput(int64_t rows, int64_t inputs, int64_t outputs,
                         const float* dy, const W* w, bool accumulate,
                         float* dx) {
  if (simd::HasWideRegisters()) {
    WideBackwardInput(rows, inputs, outputs, dy, w, accumulate, dx);
  } else {
    NarrowBackwardInput(rows, inputs, outputs, dy, w, accumulate, dx);
  }
}

template void SkinnyForward(int64_t, int64_t, int64_t, const float*,
                            const float*, bool, float*, float*);
template void SkinnyForward(int64_t, int64_t, int64_t, const float*,
                            const Bfloat16*, bool, float*, float*);
template void SkinnyBackwardInput(int64_t, int64_t, int64_t, const float*,
                                  const float*, bool, float*);
template void SkinnyBackwardInput(int64_t, int64_t, int64_t, const float*,
                                  const Bfloat16*, bool, float*);

}  // namespace tributary::cpu
