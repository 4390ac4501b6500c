// Matrix products for triangular matrices, and for matrices that are small and
// in the cache. For such small matrices, packing the operands, as BLAS
// libraries do, takes longer than it saves.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_

#include <cstdint>

namespace tributary::cpu {

// Number of rows of a tile: the part of the result C that TileGemm computes at
// a time. Tiles start at rows that are multiples of this number.
inline constexpr int64_t kTileRows = 8;

// The part of the product C = A B that TileGemm skips. Below, `d` is
// TileProduct::diagonal.
enum class Triangle {
  kNone,
  kLowerA,  // A[i, l] is zero for l > i + d.
  kUpperA,  // A[i, l] is zero for l < i - d.
  kLowerC,  // C[i, j] for j > i + d is not needed, and may be overwritten.
};

// The product C = A B of matrices C[m, n], A[m, k] and B[k, n]. With
// `accumulate`, the product is added to C. If A is triangular, tiles of A that
// the diagonal crosses are read completely, so their elements beyond the
// diagonal must be zero. B and C are row-major. A has strides for both
// dimensions, so that it may be a transpose.
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

// Computes the product on the calling thread.
void TileGemm(const TileProduct& product);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_TILE_GEMM_H_
