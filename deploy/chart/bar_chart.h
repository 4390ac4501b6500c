// Horizontal bars, each of several parts.
#ifndef TRIBUTARY_DEPLOY_CHART_BAR_CHART_H_
#define TRIBUTARY_DEPLOY_CHART_BAR_CHART_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/chart/svg_canvas.h"

namespace tributary {

struct BarChart {
  struct Part {
    double value = 0;  // What is not finite, or below 0, is left out.
    std::string color;
    std::string tooltip;
  };
  struct Bar {
    std::string label;
    std::vector<Part> parts;  // From the left.
    std::string end;          // Written behind the last part.
    // Where a black line crosses the bar, if there is one.
    absl::optional<double> marker;
    std::string marker_tooltip;
    // Stands above the bar, as the heading of it and of those below.
    std::string heading;
  };
  // What a color means.
  struct Key {
    std::string name;
    std::string color;
  };
  std::string title;
  std::string x_label;
  std::vector<Key> keys;
  std::string marker_name;  // Empty: there are no markers.
  std::vector<Bar> bars;    // From the top.
};

// What the chart takes, with title, legend and labels.
double BarChartHeight(const BarChart& chart);

// `box` is where it goes; of its height what BarChartHeight says is used.
void DrawBarChart(const BarChart& chart, const SvgBox& box, SvgCanvas* canvas);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CHART_BAR_CHART_H_
