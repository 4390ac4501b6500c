#include "deploy/tools/chart/line_chart.h"

#include <limits>
#include <string>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/xml_checker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNoPoint = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndlessPoint = std::numeric_limits<double>::infinity();

LineChart::Series Curve(std::vector<SvgPoint> points) {
  return {"curve", {"#123456"}, std::move(points)};
}

std::string Draw(const LineChart& chart) {
  SvgCanvas canvas(400, 300, "test");
  DrawLineChart(chart, {0, 0, 400, 300}, &canvas);
  const std::string svg = canvas.Finish();
  EXPECT_EQ(CheckXml(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  return svg;
}

int Count(const std::string& svg, const std::string& what) {
  return static_cast<int>(
             std::vector<std::string>(absl::StrSplit(svg, what)).size()) -
         1;
}

TEST(LineChartTest, DrawsACurveFromEdgeToEdge) {
  const std::string svg =
      Draw({"T & t", "x", "y", {Curve({{0, 0}, {50, 5}, {100, 10}})}});
  // The plot lies between 62 and 384, and 30 and 252.
  EXPECT_THAT(svg, HasSubstr("points=\"62.0,252.0 223.0,141.0 384.0,30.0\""));
  EXPECT_THAT(svg, HasSubstr("T &amp; t"));
  EXPECT_THAT(svg, HasSubstr("<title>curve: 10 at 100</title>"));
}

TEST(LineChartTest, DrawsOnePointAsADot) {
  const std::string svg = Draw({"t", "x", "y", {Curve({{10, 3}})}});
  EXPECT_EQ(Count(svg, "<polyline"), 0);
  EXPECT_GT(Count(svg, "<circle"), 0);
}

TEST(LineChartTest, DrawsEqualValuesAsALevelLine) {
  const std::string svg =
      Draw({"t", "x", "y", {Curve({{1, 2.5}, {2, 2.5}, {3, 2.5}})}});
  EXPECT_EQ(Count(svg, "<polyline"), 1);
}

TEST(LineChartTest, BreaksTheCurveWhereItIsNotFinite) {
  const std::string svg = Draw({"t",
                                "x",
                                "y",
                                {Curve({{1, 2},
                                        {2, 3},
                                        {3, kNoPoint},
                                        {4, 1},
                                        {5, kEndlessPoint},
                                        {6, 2},
                                        {7, 2.5}})}});
  EXPECT_EQ(Count(svg, "<polyline"), 2);
  EXPECT_EQ(Count(svg, "<circle"), 2);  // The lonely point and the last one.
}

TEST(LineChartTest, IsEmptyWithoutFiniteValues) {
  EXPECT_EQ(Count(Draw({"t", "x", "y", {}}), "<polyline"), 0);
  EXPECT_EQ(
      Count(Draw({"t", "x", "y", {Curve({{1, kNoPoint}, {2, kNoPoint}})}}),
            "<circle"),
      0);
}

TEST(LineChartTest, CutsOffWhatRunsAway) {
  LineChart chart{"t", "x", "y", {Curve({{0, 4}, {1, 3}, {2, 1e30}})}};
  chart.most = 5;
  const std::string svg = Draw(chart);
  EXPECT_THAT(svg, HasSubstr("clip-path=\"url(#clip1)\""));
  EXPECT_THAT(svg, HasSubstr(">4.0<"));
  EXPECT_THAT(svg, Not(HasSubstr("e+30</text>")));
}

}  // namespace
}  // namespace tributary
