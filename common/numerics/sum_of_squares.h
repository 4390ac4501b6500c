// Sums of squares of gradients. Results have the same bits on every x86-64 and
// every thread: the order of the additions is fixed. Denormal numbers count as
// zero (see flush_denormals.h).
#ifndef TRIBUTARY_COMMON_NUMERICS_SUM_OF_SQUARES_H_
#define TRIBUTARY_COMMON_NUMERICS_SUM_OF_SQUARES_H_

#include <cstdint>

namespace tributary {

// Returns the sum of x[i]^2 in double precision. Element i belongs to partial
// sum i % 16, and the 16 partial sums are added pairwise, neighbours first.
double SumOfSquares(const float* x, int64_t count);
// Computes SumOfSquares of each of `rows` rows: `x` is [rows, count].
void SumsOfSquares(const float* x, int64_t rows, int64_t count, double* sums);

// Computes SumOfSquares of an array that arrives in pieces.
class SumOfSquaresInPieces {
 public:
  // Adds the squares of the next `count` elements, which are x[i]. `count` must
  // be a multiple of 16 in all calls of Add and AddSum except the last one.
  void Add(const float* x, int64_t count);
  // Adds the squares of the next `count` elements, which are a[i] + b[i].
  // `count` must be a multiple of 16 in all calls of Add and AddSum except the
  // last one.
  void AddSum(const float* a, const float* b, int64_t count);
  double Total() const;

 private:
  double lanes_[16] = {};
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_SUM_OF_SQUARES_H_
