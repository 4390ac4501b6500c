#include "deploy/tools/chart/chart_axis.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> Labels(const ChartAxis& axis) {
  std::vector<std::string> labels;
  for (const double tick : axis.Ticks()) labels.push_back(axis.Label(tick));
  return labels;
}

TEST(ChartAxisTest, TicksAreRoundNumbers) {
  EXPECT_THAT(Labels(ChartAxis(0, 97, 5)),
              ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(
      Labels(ChartAxis(2.31, 2.59, 6)),
      ElementsAre("2.30", "2.35", "2.40", "2.45", "2.50", "2.55", "2.60"));
  EXPECT_THAT(Labels(ChartAxis(-0.5, 0.5, 2)),
              ElementsAre("-0.5", "0.0", "0.5"));
  EXPECT_THAT(Labels(ChartAxis(0, 2e9, 2)), ElementsAre("0", "1e+09", "2e+09"));
  EXPECT_THAT(Labels(ChartAxis(0, 2e-9, 2)),
              ElementsAre("0", "1e-09", "2e-09"));
}

TEST(ChartAxisTest, CoversItsValues) {
  for (const double low : {-3e5, -1.0, 0.0, 1e-7, 0.3, 17.0, 9.99e8}) {
    for (const double length : {1e-4, 0.1, 1.0, 3.3, 47.0, 1e6}) {
      for (const int ticks : {1, 3, 8}) {
        const ChartAxis axis(low, low + length, ticks);
        EXPECT_LE(axis.low(), low + 1e-6 * length);
        EXPECT_GE(axis.high(), low + length * (1 - 1e-6));
        EXPECT_GE(axis.Ticks().size(), 2u);
        EXPECT_LE(axis.Ticks().size(), static_cast<size_t>(2 * ticks + 2));
      }
    }
  }
}

TEST(ChartAxisTest, HasRoomAroundEqualValues) {
  for (const double value : {0.0, 1.0, -2.5, 1e12, 1e-12}) {
    const ChartAxis axis(value, value, 5);
    EXPECT_LT(axis.low(), axis.high()) << value;
    EXPECT_GE(axis.Share(value), 0) << value;
    EXPECT_LE(axis.Share(value), 1) << value;
  }
}

TEST(ChartAxisTest, IsThereWithoutValuesToo) {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {kNan, kNan}, {kInfinity, -kInfinity}, {0, kInfinity}, {2, 1}}) {
    const ChartAxis axis(low, high, 5);
    EXPECT_EQ(axis.low(), 0);
    EXPECT_EQ(axis.high(), 1);
  }
}

TEST(ChartAxisTest, SharesAreLinear) {
  const ChartAxis axis(0, 100, 5);
  EXPECT_DOUBLE_EQ(axis.Share(0), 0);
  EXPECT_DOUBLE_EQ(axis.Share(25), 0.25);
  EXPECT_DOUBLE_EQ(axis.Share(100), 1);
}

}  // namespace
}  // namespace tributary
