#include "common/numerics/sum_of_squares.h"

#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"
#include "common/numerics/vector_kernels.h"

namespace tributary {
namespace {

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void AddSquaresBest(
    const float* x, int64_t count, double* sums) {
  vector_kernels::AddSquares(
      [x](int64_t i) __attribute__((always_inline)) { return x[i]; }, count,
      sums);
}

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void AddSquaresOfSumsBest(
    const float* a, const float* b, int64_t count, double* sums) {
  vector_kernels::AddSquares(
      [ a, b ](int64_t i)
          __attribute__((always_inline)) { return a[i] + b[i]; },
      count, sums);
}

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void SumsOfSquaresBest(
    const float* x, int64_t rows, int64_t count, double* sums) {
  for (int64_t row = 0; row < rows; ++row, x += count) {
    double lanes[16] = {};
    vector_kernels::AddSquares(
        [x](int64_t i) __attribute__((always_inline)) { return x[i]; }, count,
        lanes);
    sums[row] = vector_kernels::AddPairwise(lanes);
  }
}

}  // namespace

double SumOfSquares(const float* x, int64_t count) {
  SumOfSquaresInPieces sum;
  sum.Add(x, count);
  return sum.Total();
}

void SumsOfSquares(const float* x, int64_t rows, int64_t count, double* sums) {
  const FlushDenormals flush;
  SumsOfSquaresBest(x, rows, count, sums);
}

void SumOfSquaresInPieces::Add(const float* x, int64_t count) {
  const FlushDenormals flush;
  AddSquaresBest(x, count, lanes_);
}

void SumOfSquaresInPieces::AddSum(const float* a, const float* b,
                                  int64_t count) {
  const FlushDenormals flush;
  AddSquaresOfSumsBest(a, b, count, lanes_);
}

double SumOfSquaresInPieces::Total() const {
  return vector_kernels::AddPairwise(lanes_);
}

}  // namespace tributary
