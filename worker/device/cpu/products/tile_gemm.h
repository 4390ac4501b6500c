// Products of matrices that are in the cache already, so small that packing
// them, as libraries do, costs more than it saves; and of triangular ones.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_

#include <cstdint>

namespace tributary::cpu {

// Tiles begin at multiples of this many rows of C.
inline constexpr int64_t kTileRows = 8;

// What need not be computed, with `d` = TileProduct::diagonal.
enum class Triangle {
  kNone,
  kLowerA,  // A[i, l] is zero for l > i + d.
  kUpperA,  // A[i, l] is zero for l < i - d.
  kLowerC,  // C[i, j] is not needed for j > i + d; some of it is written.
};

// C[m, n] = A[m, k] B[k, n], or +=. Tiles of A that touch the diagonal are read
// whole: they must hold the zeros. B and C are row-major; A has strides for
// both dimensions, so that it may be a transpose.
struct TileProduct {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row_stride = 0, a_column_stride = 1;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
  Triangle triangle = Triangle::kNone;
  int64_t diagonal = 0;
};

void TileGemm(const TileProduct& product);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_
