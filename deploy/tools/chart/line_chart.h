// Draws several curves in one chart.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CHART_LINE_CHART_H_
#define TRIBUTARY_DEPLOY_TOOLS_CHART_LINE_CHART_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/chart/svg_canvas.h"

namespace tributary {

struct LineChart {
  struct Series {
    std::string name;  // Name in the tooltip of the last point.
    SvgStroke stroke;
    // The points of the curve. Lines join consecutive points. A non-finite
    // point is omitted and interrupts the curve. Isolated points are drawn as
    // dots.
    std::vector<SvgPoint> points;
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;  // Later series are drawn above earlier ones.
  // Upper limit of the y axis. Curves are clipped there, so that one diverging
  // curve does not flatten the others. Absent if there is no limit.
  absl::optional<double> most;
};

// Draws the chart, with title and labels, in `box`.
void DrawLineChart(const LineChart& chart, const SvgBox& box,
                   SvgCanvas* canvas);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CHART_LINE_CHART_H_
