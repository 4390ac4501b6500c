#include "deploy/tools/chart/bar_chart.h"

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/xml_checker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNoBar = std::numeric_limits<double>::quiet_NaN();

BarChart::Bar Bar(const std::string& label, std::vector<double> values) {
  BarChart::Bar bar;
  bar.label = label;
  for (const double value : values) {
    bar.parts.push_back({value, "#123456", absl::StrCat("part ", value)});
  }
  return bar;
}

std::string DrawBars(const BarChart& chart) {
  SvgCanvas canvas(600, BarChartHeight(chart), "test");
  DrawBarChart(chart, {0, 0, 600, BarChartHeight(chart)}, &canvas);
  const std::string svg = canvas.Finish();
  EXPECT_EQ(CheckXml(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("\"nan\"")));
  EXPECT_THAT(svg, Not(HasSubstr("\"inf\"")));
  return svg;
}

// The rectangles of the parts, in the order in which they are drawn.
std::vector<SvgBox> Parts(const std::string& svg) {
  std::vector<SvgBox> boxes;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(svg, '\n'))) {
    SvgBox box;
    if (line.find("#123456") != std::string::npos &&
        std::sscanf(line.c_str(),
                    "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
                    &box.x, &box.y, &box.width, &box.height) == 4) {
      boxes.push_back(box);
    }
  }
  return boxes;
}

TEST(BarChartTest, PartsFollowEachOther) {
  BarChart chart;
  chart.bars = {Bar("a", {30, 70}), Bar("b", {50})};
  const std::string svg = DrawBars(chart);
  const std::vector<SvgBox> parts = Parts(svg);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_NEAR(parts[1].x, parts[0].right(), 0.2);
  EXPECT_NEAR(parts[1].width / parts[0].width, 7.0 / 3, 0.01);
  EXPECT_NEAR(parts[2].width, parts[0].width * 5 / 3, 0.2);
  EXPECT_EQ(parts[2].x, parts[0].x);
  EXPECT_GT(parts[2].y, parts[0].y + parts[0].height);
  EXPECT_LT(parts[1].right(), 600);
  EXPECT_GT(parts[1].right(), 500);
  EXPECT_THAT(svg, HasSubstr("<title>part 30</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>part 70</title>"));
}

TEST(BarChartTest, LeavesOutWhatHasNoLength) {
  BarChart chart;
  chart.bars = {Bar("a", {kNoBar, -1, 0, 5}), Bar("none", {})};
  chart.bars[1].end = "failed <here>";
  const std::string svg = DrawBars(chart);
  EXPECT_THAT(svg, HasSubstr("<title>part 5</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("<title>part 0</title>")));
  EXPECT_THAT(svg, Not(HasSubstr("<title>part -1</title>")));
  EXPECT_THAT(svg, HasSubstr("failed &lt;here&gt;"));
}

TEST(BarChartTest, IsThereWithoutBarsAndWithoutValues) {
  EXPECT_THAT(DrawBars(BarChart()), HasSubstr("</svg>"));
  BarChart chart;
  chart.bars = {Bar("a", {0})};
  EXPECT_THAT(DrawBars(chart), HasSubstr(">a<"));
}

TEST(BarChartTest, MarksWhatIsExpected) {
  BarChart chart;
  chart.marker_name = "expected";
  chart.bars = {Bar("a", {1}), Bar("b", {1})};
  chart.bars[0].marker = 40;  // Beyond the bar: the axis goes as far.
  chart.bars[0].marker_tooltip = "forty";
  chart.bars[1].marker = kNoBar;
  const std::string svg = DrawBars(chart);
  EXPECT_THAT(svg, HasSubstr("<title>forty</title>"));
  EXPECT_THAT(svg, HasSubstr(">expected<"));
  EXPECT_THAT(svg, HasSubstr(">40<"));
}

TEST(BarChartTest, GrowsWithItsBars) {
  BarChart chart;
  const double empty = BarChartHeight(chart);
  chart.bars.assign(10, Bar("a", {1}));
  const double ten = BarChartHeight(chart);
  EXPECT_GT(ten, empty + 200);
  chart.bars[3].heading = "more";
  EXPECT_GT(BarChartHeight(chart), ten);
  EXPECT_THAT(DrawBars(chart), HasSubstr(">more<"));
}

}  // namespace
}  // namespace tributary
