#include "common/sparse/row_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/codec/row_codec.h"

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

std::shared_ptr<const RowSum> Leaf(const std::map<uint64_t, float>& rows) {
  return std::make_shared<const RowSum>(Gradients(rows), kColumns);
}

std::shared_ptr<const RowGradients> Add(const std::map<uint64_t, float>& left,
                                        const std::map<uint64_t, float>& right,
                                        Encoding encoding = FLOAT32) {
  return RowSum::Add(Leaf(left), Leaf(right), encoding)->Gradients();
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
    const auto sum = Add(left, right);
    const auto expected = Gradients(wanted);
    ASSERT_EQ(sum->keys, expected->keys);
    EXPECT_TRUE(std::equal(expected->values.get(),
                           expected->values.get() + expected->rows() * kColumns,
                           sum->values.get()));
  }
}

TEST(RowGradientsTest, AnAbsentRowIsNotZero) {
  // -0 + 0 would be 0.
  const auto sum = Add({{1, -0.f}, {2, -0.f}}, {{2, 0.f}, {3, -0.f}});
  ASSERT_EQ(sum->keys, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(std::signbit(sum->values.get()[0]));
  EXPECT_FALSE(std::signbit(sum->values.get()[kColumns]));
  EXPECT_TRUE(std::signbit(sum->values.get()[2 * kColumns]));
}

TEST(RowGradientsTest, RoundsSums) {
  // 256 + 1 has no bfloat16.
  const auto sum = Add({{1, 256.f}}, {{1, 1.f}}, BFLOAT16);
  EXPECT_EQ(sum->values.get()[0], 256.f);
  // With eight bits, each row has a scale: 127 + 1 is a multiple of 2, and 127
  // + 4 is rounded to one.
  const auto eight =
      Add({{1, 127.f}, {2, 127.f}}, {{1, 1.f}, {2, 4.f}}, EIGHT_BIT_ROWS);
  EXPECT_EQ(eight->values.get()[0], 128.f);
  EXPECT_EQ(eight->values.get()[kColumns], 132.f);
}

// The sums of all nodes of a tree, each of which is rounded.
TEST(RowGradientsTest, AddsAlongTheTree) {
  std::mt19937 random(2);
  for (const Encoding encoding : {FLOAT32, BFLOAT16}) {
    for (int leaves = 1; leaves <= 64; leaves *= 2) {
      std::vector<std::shared_ptr<const RowSum>> sums;
      std::vector<std::map<uint64_t, float>> wanted;
      for (int leaf = 0; leaf < leaves; ++leaf) {
        std::map<uint64_t, float> rows;
        // Some leaves have no rows.
        for (uint32_t row = random() % 6; row > 0; --row) {
          rows[random() % 9] = std::ldexp(static_cast<float>(random() % 255),
                                          static_cast<int>(random() % 40));
        }
        sums.push_back(Leaf(rows));
        wanted.push_back(std::move(rows));
      }
      for (int nodes = leaves; nodes > 1; nodes /= 2) {
        for (int node = 0; node < nodes / 2; ++node) {
          sums[node] =
              RowSum::Add(sums[2 * node], sums[2 * node + 1], encoding);
          std::map<uint64_t, float> sum = wanted[2 * node];
          for (const auto& [key, value] : wanted[2 * node + 1]) {
            const auto [place, absent] = sum.emplace(key, value);
            if (absent) continue;
            place->second += value;
            RoundRows(encoding, &place->second, /*rows=*/1, /*dim=*/1);
          }
          wanted[node] = std::move(sum);
        }
      }
      const auto expected = Gradients(wanted[0]);
      const auto sum = sums[0]->Gradients();
      ASSERT_EQ(sum->keys, expected->keys);
      EXPECT_EQ(sums[0]->keys(), expected->keys);
      EXPECT_TRUE(
          std::equal(expected->values.get(),
                     expected->values.get() + expected->rows() * kColumns,
                     sum->values.get()));
      // Single rows, in any order.
      RowSum::Reader reader(sums[0].get());
      for (int64_t row = sum->rows() - 1; row >= 0; --row) {
        EXPECT_TRUE(std::equal(expected->values.get() + row * kColumns,
                               expected->values.get() + (row + 1) * kColumns,
                               reader.Read(row)));
      }
    }
  }
}

}  // namespace
}  // namespace tributary
