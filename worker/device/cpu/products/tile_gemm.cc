#include "worker/device/cpu/products/tile_gemm.h"

#include <algorithm>

#include "common/numerics/simd.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// The part of the inner dimension that contributes to a tile of C.
struct Range {
  int64_t begin, end;
};

template <typename Vector, int kRows, int kVectors>
TRIBUTARY_INLINE void FullTile(const TileProduct& p, Range inner,
                               const float* a, const float* b, float* c) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][kVectors] = {};
  if (p.accumulate) {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = simd::Load<Vector>(c + r * p.c_stride + v * kWidth);
      }
    }
  }
  for (int64_t l = inner.begin; l < inner.end; ++l) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = simd::Load<Vector>(b + l * p.b_stride + v * kWidth);
    }
    const float* column = a + l * p.a_column_stride;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] += column[r * p.a_row_stride] * row[v];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      simd::Store(c + r * p.c_stride + v * kWidth, sums[r][v]);
    }
  }
}

// Handles the last columns, fewer than a vector.
template <int kRows>
TRIBUTARY_INLINE void NarrowTile(const TileProduct& p, Range inner,
                                 int64_t columns, const float* a,
                                 const float* b, float* c) {
  Lanes sums[kRows] = {};
  for (int64_t l = inner.begin; l < inner.end; ++l) {
    const Lanes row = simd::LoadFirst(b + l * p.b_stride, columns);
    const float* column = a + l * p.a_column_stride;
    for (int r = 0; r < kRows; ++r) sums[r] += column[r * p.a_row_stride] * row;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < columns; ++j) {
      float& to = c[r * p.c_stride + j];
      to = p.accumulate ? to + sums[r][j] : sums[r][j];
    }
  }
}

// Number of vectors of sums kept in registers: enough to hide the latency of
// additions, and no more than there are registers. It never changes the order
// of additions within a sum.
struct WideRegisters {
  using Vector = Lanes;
  static constexpr int kRows = kTileRows, kVectors = 2;
};
struct NarrowRegisters {
  using Vector = simd::HalfLanes;
  static constexpr int kRows = 4, kVectors = 2;
};

template <typename Registers, int kRows>
TRIBUTARY_INLINE void Columns(const TileProduct& p, Range inner,
                              int64_t columns, const float* a, float* c) {
  using Vector = typename Registers::Vector;
  constexpr int kVectors = Registers::kVectors;
  constexpr int kColumns = kVectors * sizeof(Vector) / sizeof(float);
  int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns) {
    FullTile<Vector, kRows, kVectors>(p, inner, a, p.b + j, c + j);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    FullTile<Lanes, kRows, 1>(p, inner, a, p.b + j, c + j);
  }
  if (j < columns) {
    NarrowTile<kRows>(p, inner, columns - j, a, p.b + j, c + j);
  }
}

template <typename Registers, int kRows>
TRIBUTARY_INLINE void Rows(const TileProduct& p, int64_t i) {
  Range inner = {0, p.k};
  int64_t columns = p.n;
  if (p.triangle == Triangle::kLowerA) {
    inner.end = std::min(p.k, i + kRows + p.diagonal);
  } else if (p.triangle == Triangle::kUpperA) {
    inner.begin = std::max(int64_t{0}, i - p.diagonal);
  } else if (p.triangle == Triangle::kLowerC) {
    const int64_t needed = i + kRows + p.diagonal;
    columns = std::min(p.n, (needed + kLanes - 1) / kLanes * kLanes);
  }
  constexpr int kStep = std::min(kRows, Registers::kRows);
  static_assert(kRows % kStep == 0, "");
  for (int64_t row = i; row < i + kRows; row += kStep) {
    Columns<Registers, kStep>(p, inner, columns, p.a + row * p.a_row_stride,
                              p.c + row * p.c_stride);
  }
}

template <typename Registers>
TRIBUTARY_INLINE void AllRows(const TileProduct& p) {
  int64_t i = 0;
  for (; i + kTileRows <= p.m; i += kTileRows) Rows<Registers, kTileRows>(p, i);
  for (; i < p.m; ++i) Rows<Registers, 1>(p, i);
}

// Take the product by value, so that the compiler may assume that stores to C
// do not change it. Separate functions, because GCC otherwise keeps fewer sums
// in registers: with AVX2 a third of the speed.
TRIBUTARY_WIDE_VERSION
void TileGemmWide(TileProduct product) { AllRows<WideRegisters>(product); }

TRIBUTARY_NARROW_VERSIONS
void TileGemmNarrow(TileProduct product) { AllRows<NarrowRegisters>(product); }

}  // namespace

void TileGemm(const TileProduct& product) {
  if (simd::HasWideRegisters()) {
    TileGemmWide(product);
  } else {
    TileGemmNarrow(product);
  }
}

}  // namespace tributary::cpu
