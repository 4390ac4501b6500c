// Draws horizontal bars with several parts each.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CHART_BAR_CHART_H_
#define TRIBUTARY_DEPLOY_TOOLS_CHART_BAR_CHART_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/chart/svg_canvas.h"

namespace tributary {

struct BarChart {
  struct Part {
    double value = 0;  // Values that are negative or not finite are omitted.
    std::string color;
    std::string tooltip;
  };
  struct Bar {
    std::string label;
    std::vector<Part> parts;  // Ordered from left to right.
    std::string end;          // Text after the last part.
    // The bar's marker: the value at which a black line crosses the bar. Absent
    // if there is no such line.
    absl::optional<double> marker;
    // Tooltip of the marker, the black line that crosses the bar.
    std::string marker_tooltip;
    // Heading above the bar, for this bar and the bars below it; empty if there
    // is none.
    std::string heading;
  };
  // An entry of the legend: the meaning of a color.
  struct Key {
    std::string name;
    std::string color;
  };
  std::string title;
  std::string x_label;
  std::vector<Key> keys;
  // Name, in the legend, of the black lines that cross bars (Bar::marker);
  // empty if there are none.
  std::string marker_name;
  std::vector<Bar> bars;  // Ordered from top to bottom.
};

// Returns the height of the chart in pixels, including title, legend and
// labels.
double BarChartHeight(const BarChart& chart);

// Draws the chart in `box`, using the height that BarChartHeight returns.
void DrawBarChart(const BarChart& chart, const SvgBox& box, SvgCanvas* canvas);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CHART_BAR_CHART_H_
