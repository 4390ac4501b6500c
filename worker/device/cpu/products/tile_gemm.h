// Products of triangular matrices, and of matrices in the cache that are too
// small for packing, as libraries do it, to pay off.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_

#include <cstdint>

namespace tributary::cpu {

// Tiles start at multiples of this number of rows of C.
inline constexpr int64_t kTileRows = 8;

// The part of the product that is skipped, with `d` = TileProduct::diagonal.
enum class Triangle {
  kNone,
  kLowerA,  // A[i, l] is zero for l > i + d.
  kUpperA,  // A[i, l] is zero for l < i - d.
  kLowerC,  // C[i, j] is not needed for j > i + d; parts of it are written.
};

// C[m, n] = A[m, k] B[k, n], or +=. Tiles of A that touch the diagonal are read
// completely and must contain the zeros. B and C are row-major. A has strides
// for both dimensions, so that it may be a transpose.
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
