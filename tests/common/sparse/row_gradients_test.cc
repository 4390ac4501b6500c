#include "common/sparse/row_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace tributary {
namespace {

constexpr int kColumns = 3;

std::shared_ptr<const RowGradients> Gradients(
    const std::map<uint64_t, float>& rows) {
  auto gradients = std::make_shared<RowGradients>();
  gradients->values =
      AllocateBuffer(static_cast<int64_t>(rows.size()) * kColumns);
  float* to = gradients->values.get();
  for (const auto& [key, value] : rows) {
    gradients->keys.push_back(key);
    to = std::fill_n(to, kColumns, value);
  }
  return gradients;
}

TEST(RowGradientsTest, AddsTheRowsOfEachKey) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::map<uint64_t, float> left, right, wanted;
    for (uint32_t j = 0; j < random() % 8; ++j) {
      left[random() % 8] = static_cast<float>(random() % 100);
    }
    for (uint32_t j = 0; j < random() % 8; ++j) {
      right[random() % 8] = static_cast<float>(random() % 100);
    }
    for (const auto& [key, value] : left) wanted[key] += value;
    for (const auto& [key, value] : right) wanted[key] += value;
    const auto sum =
        AddRows(Gradients(left), Gradients(right), kColumns, FLOAT32);
    const auto expected = Gradients(wanted);
    ASSERT_EQ(sum->keys, expected->keys);
    EXPECT_TRUE(std::equal(expected->values.get(),
                           expected->values.get() + expected->rows() * kColumns,
                           sum->values.get()));
  }
}

TEST(RowGradientsTest, AnAbsentRowIsNotZero) {
  // -0 + 0 would be 0.
  const auto sum = AddRows(Gradients({{1, -0.f}, {2, -0.f}}),
                           Gradients({{2, 0.f}, {3, -0.f}}), kColumns, FLOAT32);
  ASSERT_EQ(sum->keys, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(std::signbit(sum->values.get()[0]));
  EXPECT_FALSE(std::signbit(sum->values.get()[kColumns]));
  EXPECT_TRUE(std::signbit(sum->values.get()[2 * kColumns]));
}

TEST(RowGradientsTest, RoundsSums) {
  // 256 + 1 has no bfloat16.
  const auto sum = AddRows(Gradients({{1, 256.f}}), Gradients({{1, 1.f}}),
                           kColumns, BFLOAT16);
  EXPECT_EQ(sum->values.get()[0], 256.f);
  // With eight bits, each row has a scale: 127 + 1 is a multiple of 2, and 127
  // + 4 is rounded to one.
  const auto eight =
      AddRows(Gradients({{1, 127.f}, {2, 127.f}}),
              Gradients({{1, 1.f}, {2, 4.f}}), kColumns, EIGHT_BIT_ROWS);
  EXPECT_EQ(eight->values.get()[0], 128.f);
  EXPECT_EQ(eight->values.get()[kColumns], 132.f);
}

}  // namespace
}  // namespace tributary
