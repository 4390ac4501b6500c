#include "common/parameters/trust_ratios.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// Parameters of 40, 16, 16, 16 and 70 elements in chunks of 48 elements. The
// second and the fourth have no trust ratio.
ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(48);
  for (const auto& [size, group] :
       std::vector<std::pair<int, OptimizerGroup>>{{40, DECAY},
                                                   {16, NO_DECAY},
                                                   {16, DECAY},
                                                   {16, STATISTICS},
                                                   {70, DECAY}}) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", table.parameter_size()));
    parameter->add_shape(size);
    parameter->set_group(group);
  }
  return *ArenaLayout::Create(table);
}

TEST(TrustRatiosTest, CountsTheParametersWithWeightDecayInEachChunk) {
  const TrustRatios ratios(Layout());
  EXPECT_EQ(ratios.count(), 3);
  EXPECT_EQ(ratios.PartsIn(0), 1);
  // The second chunk has elements [48, 96): the third parameter only.
  EXPECT_EQ(ratios.PartsIn(1), 1);
  EXPECT_EQ(ratios.PartsIn(2), 1);
  EXPECT_EQ(ratios.PartsIn(3), 1);
  const std::vector<float> all = {1, 2, 3};
  EXPECT_THAT(ratios.RatiosIn(0, all), ElementsAre(1));
  EXPECT_THAT(ratios.RatiosIn(1, all), ElementsAre(2));
  EXPECT_THAT(ratios.RatiosIn(2, all), ElementsAre(3));
  EXPECT_THAT(ratios.RatiosIn(3, all), ElementsAre(3));
}

TEST(TrustRatiosTest, DividesTheNormsOfWholeParameters) {
  const TrustRatios ratios(Layout());
  EXPECT_THAT(ratios.Of({{{4, 16}}, {{9, 1}}, {{16, 3}}, {{9, 1}}}),
              ElementsAre(0.5f, 3, 2.5f));
}

TEST(TrustRatiosTest, AddsInTheOrderOfTheChunks) {
  constexpr int kChunks = 10;
  ParameterTable table;
  table.set_chunk_elements(16);
  auto* const parameter = table.add_parameter();
  parameter->set_name("p");
  parameter->add_shape(16 * kChunks);
  parameter->set_group(DECAY);
  const TrustRatios ratios(*ArenaLayout::Create(table));
  // The square of a number between two floats. The others are lost if they are
  // added to it one by one, but not their sum.
  const double first = std::pow(1 + std::ldexp(1, -24), 2);
  const double tiny = std::ldexp(1, -53);
  std::vector<std::vector<TensorSquares>> squares(kChunks, {{tiny, 0}});
  squares[0] = {{first, 1}};
  EXPECT_THAT(ratios.Of(squares), ElementsAre(1));
  const double in_another_order = (kChunks - 1) * tiny + first;
  EXPECT_GT(static_cast<float>(std::sqrt(in_another_order)), 1);
}

TEST(TrustRatiosTest, AreOneWithoutANormOrIfTheyAreNotFinite) {
  const TrustRatios ratios(Layout());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(ratios.Of({{{0, 4}}, {{4, 0}}, {{nan, 1}}, {{1, 1}}}),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(
      ratios.Of({{{1, nan}}, {{infinity, 1}}, {{1e300, 1e-300}}, {{0, 0}}}),
      ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace tributary
