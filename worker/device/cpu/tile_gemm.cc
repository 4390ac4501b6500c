#include "worker/device/cpu/tile_gemm.h"

#include <algorithm>

#include "common/simd.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// The part of the inner dimension that a tile of C needs.
struct Range {
  int64_t begin, end;
};

// Sixteen sums in registers hide the latency of fused multiply-adds.
template <int kRows, int kVectors>
TRIBUTARY_INLINE void FullTile(const TileProduct& p, Range inner,
                               const float* a, const float* b, float* c) {
  Lanes sums[kRows][kVectors] = {};
  if (p.accumulate) {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = simd::Load(c + r * p.c_stride + v * kLanes);
      }
    }
  }
  for (int64_t l = inner.begin; l < inner.end; ++l) {
    Lanes row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = simd::Load(b + l * p.b_stride + v * kLanes);
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
      simd::Store(c + r * p.c_stride + v * kLanes, sums[r][v]);
    }
  }
}

// The last columns, fewer than a vector.
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

template <int kRows>
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
  const float* a = p.a + i * p.a_row_stride;
  float* c = p.c + i * p.c_stride;
  int64_t j = 0;
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
    FullTile<kRows, 2>(p, inner, a, p.b + j, c + j);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    FullTile<kRows, 1>(p, inner, a, p.b + j, c + j);
  }
  if (j < columns) {
    NarrowTile<kRows>(p, inner, columns - j, a, p.b + j, c + j);
  }
}

}  // namespace

TRIBUTARY_MULTIVERSION
void TileGemm(const TileProduct& product) {
  // A copy, which stores to C cannot change as far as the compiler knows.
  const TileProduct p = product;
  int64_t i = 0;
  for (; i + kTileRows <= p.m; i += kTileRows) Rows<kTileRows>(p, i);
  for (; i < p.m; ++i) Rows<1>(p, i);
}

}  // namespace tributary::cpu
