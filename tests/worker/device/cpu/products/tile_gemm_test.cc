#include "worker/device/cpu/products/tile_gemm.h"

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"

namespace tributary::cpu {
namespace {

// Whether A[i, l] may be other than zero.
bool InTriangle(const TileProduct& p, int64_t i, int64_t l) {
  if (p.triangle == Triangle::kLowerA) return l <= i + p.diagonal;
  if (p.triangle == Triangle::kUpperA) return l >= i - p.diagonal;
  return true;
}

// Multiplies random matrices of the shape of `p`, whose pointers and strides it
// sets, and compares with float64 what `p` says is needed.
void Check(TileProduct p, bool transposed) {
  Floats a = RandomFloats(p.m * p.k, 1);
  const Floats b = RandomFloats(p.k * p.n, 2);
  const Floats before = RandomFloats(p.m * p.n, 3);
  Floats c = before;
  p.a_row_stride = transposed ? 1 : p.k;
  p.a_column_stride = transposed ? p.m : 1;
  const auto a_at = [&](int64_t i, int64_t l) -> float& {
    return a[i * p.a_row_stride + l * p.a_column_stride];
  };
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t l = 0; l < p.k; ++l) {
      if (!InTriangle(p, i, l)) a_at(i, l) = 0;
    }
  }
  p.a = a.data();
  p.b = b.data();
  p.b_stride = p.n;
  p.c = c.data();
  p.c_stride = p.n;
  TileGemm(p);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      if (p.triangle == Triangle::kLowerC && j > i + p.diagonal) continue;
      double expected = p.accumulate ? before[i * p.n + j] : 0.0;
      for (int64_t l = 0; l < p.k; ++l) {
        expected += static_cast<double>(a_at(i, l)) * b[l * p.n + j];
      }
      // Terms are below 1, and their sum rounds once for each.
      ASSERT_NEAR(c[i * p.n + j], expected,
                  static_cast<double>(p.k * (p.k + 2)) * kEpsilon)
          << "row " << i << ", column " << j << " of " << p.m << " x " << p.n
          << " x " << p.k << ", diagonal " << p.diagonal;
    }
  }
}

TEST(TileGemmTest, MatchesReferenceForAllTriangles) {
  for (int64_t m : {1, 8, 17, 33}) {
    for (int64_t n : {1, 16, 31, 48, 65}) {
      for (int64_t k : {1, 3, 32, 70}) {
        for (Triangle triangle : {Triangle::kNone, Triangle::kLowerA,
                                  Triangle::kUpperA, Triangle::kLowerC}) {
          for (int64_t diagonal : {0, 16}) {
            for (bool transposed : {false, true}) {
              TileProduct p;
              p.m = m;
              p.n = n;
              p.k = k;
              p.accumulate = transposed;
              p.triangle = triangle;
              p.diagonal = diagonal;
              Check(p, transposed);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tributary::cpu
