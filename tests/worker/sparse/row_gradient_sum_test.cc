#include "worker/sparse/row_gradient_sum.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<float> ValuesOf(const RowGradients& rows, int dim) {
  return {rows.values.get(), rows.values.get() + rows.rows() * dim};
}

TEST(RowGradientSumTest, LeavesRowsOutToWhichNothingWasAdded) {
  RowGradientSum sum({2, 3, 5, 7}, /*dim=*/2);
  const float a[] = {1, 2}, b[] = {10, 20};
  sum.Add(3, 1, a);
  sum.Add(1, 0.5, b);
  sum.Add(3, 2, b);
  const auto rows = sum.Take();
  EXPECT_THAT(rows->keys, ElementsAre(3, 7));
  EXPECT_THAT(ValuesOf(*rows, 2), ElementsAre(5, 10, 21, 42));
  RowGradientSum none({2, 3}, /*dim=*/2);
  EXPECT_THAT(none.Take()->keys, IsEmpty());
}

// 0 + -0 is 0, and so is 0 + 1 * -0.
TEST(RowGradientSumTest, SumsBeginWithZero) {
  RowGradientSum sum({4, 6}, /*dim=*/1);
  const float zero = 0, negative = -0.f;
  sum.Add(0, 1, &negative);
  sum.Add(1, -1, &zero);
  const auto rows = sum.Take();
  EXPECT_THAT(rows->keys, ElementsAre(4, 6));
  EXPECT_FALSE(std::signbit(rows->values.get()[0]));
  EXPECT_FALSE(std::signbit(rows->values.get()[1]));
}

}  // namespace
}  // namespace tributary
