#include "common/numerics/vector_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/numerics/sum_of_squares.h"
#include "common/numerics/vector_kernels.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kSizes[] = {0, 1, 7, 15, 16, 17, 33, 100, 1000, 4099};

std::vector<float> Random(int count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

// The kernels as each instruction set computes them.
__attribute__((target("avx2,fma"), noinline)) double Avx2Squares(
    const float* x, int64_t count) {
  double sums[16] = {};
  vector_kernels::AddSquares(
      [x](int64_t i) __attribute__((always_inline)) { return x[i]; }, count,
      sums);
  return vector_kernels::AddPairwise(sums);
}
__attribute__((target("avx512f"), noinline)) double Avx512Squares(
    const float* x, int64_t count) {
  double sums[16] = {};
  vector_kernels::AddSquares(
      [x](int64_t i) __attribute__((always_inline)) { return x[i]; }, count,
      sums);
  return vector_kernels::AddPairwise(sums);
}
__attribute__((noinline)) double BaselineSquares(const float* x,
                                                 int64_t count) {
  double sums[16] = {};
  vector_kernels::AddSquares(
      [x](int64_t i) __attribute__((always_inline)) { return x[i]; }, count,
      sums);
  return vector_kernels::AddPairwise(sums);
}

TEST(VectorOpsTest, AddsElementByElement) {
  for (const int size : kSizes) {
    const std::vector<float> a = Random(size, 1), b = Random(size, 2);
    std::vector<float> sum = b, out(size);
    AddInto(a.data(), sum.data(), size);
    Sum2(a.data(), b.data(), out.data(), size);
    std::vector<float> difference(size);
    Subtract(a.data(), b.data(), difference.data(), size);
    for (int i = 0; i < size; ++i) {
      EXPECT_EQ(sum[i], a[i] + b[i]);
      EXPECT_EQ(out[i], a[i] + b[i]);
      EXPECT_EQ(difference[i], a[i] - b[i]);
    }
  }
}

TEST(VectorOpsTest, WritesNothingBehindTheEnd) {
  std::vector<float> a(40, 1), out(40, 5);
  Sum2(a.data(), a.data(), out.data(), 21);
  AddInto(a.data(), out.data(), 19);
  EXPECT_EQ(out[18], 3);
  EXPECT_EQ(out[20], 2);
  EXPECT_EQ(out[21], 5);
}

TEST(VectorOpsTest, SumOfSquaresIsThatOfDoublePrecision) {
  for (const int size : kSizes) {
    const std::vector<float> x = Random(size, 3);
    double expected = 0;
    for (const float value : x) expected += double{value} * value;
    // Another order of at most 4,099 additions, each exact to 2^-53.
    EXPECT_NEAR(SumOfSquares(x.data(), size), expected, 1e-12 * expected);
  }
}

TEST(VectorOpsTest, SumOfSquaresAddsInTheDocumentedOrder) {
  for (const int size : kSizes) {
    const std::vector<float> x = Random(size, 4);
    double lanes[16] = {};
    for (int i = 0; i < size; ++i) lanes[i % 16] += double{x[i]} * x[i];
    for (int width = 1; width < 16; width *= 2) {
      for (int i = 0; i < 16; i += 2 * width) lanes[i] += lanes[i + width];
    }
    EXPECT_EQ(SumOfSquares(x.data(), size), lanes[0]) << size;
    // In pieces, and of halves.
    SumOfSquaresInPieces pieces;
    const int first = size / 32 * 16;
    pieces.Add(x.data(), first);
    const std::vector<float> zeros(size);
    pieces.AddSum(x.data() + first, zeros.data(), size - first);
    EXPECT_EQ(pieces.Total(), lanes[0]) << size;
  }
}

TEST(VectorOpsTest, SumOfSquaresHasTheSameBitsOnEveryInstructionSet) {
  for (const int size : kSizes) {
    // Also from an address that is only 4-byte aligned.
    const std::vector<float> values = Random(size + 1, 5);
    const float* x = values.data() + 1;
    const double expected = BaselineSquares(x, size);
    EXPECT_EQ(SumOfSquares(x, size), expected);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      EXPECT_EQ(Avx2Squares(x, size), expected);
    }
    if (__builtin_cpu_supports("avx512f")) {
      EXPECT_EQ(Avx512Squares(x, size), expected);
    }
  }
}

TEST(VectorOpsTest, SumsOfSquaresAreThoseOfTheRows) {
  constexpr int kRows = 5;
  for (const int size : kSizes) {
    const std::vector<float> x = Random(kRows * size, 6);
    std::vector<double> sums(kRows);
    SumsOfSquares(x.data(), kRows, size, sums.data());
    for (int row = 0; row < kRows; ++row) {
      EXPECT_EQ(sums[row], SumOfSquares(x.data() + row * size, size)) << size;
    }
  }
}

TEST(VectorOpsTest, SquaresOfLargeNumbersDoNotOverflow) {
  const std::vector<float> x(4, std::numeric_limits<float>::max());
  EXPECT_NEAR(std::sqrt(SumOfSquares(x.data(), 4)) / x[0], 2, 1e-15);
}

TEST(VectorOpsTest, DenormalNumbersCountAsZero) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> x(20, tiny);
  std::vector<float> sum(20, tiny);
  EXPECT_EQ(SumOfSquares(x.data(), 20), 0);
  AddInto(x.data(), sum.data(), 20);
  for (const float value : sum) EXPECT_EQ(value, 0);
  // And the caller's arithmetic is as before.
  volatile float half = std::numeric_limits<float>::min();
  half = half / 2;
  EXPECT_NE(half, 0);
}

}  // namespace
}  // namespace tributary
