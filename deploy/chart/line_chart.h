// Curves over one axis.
#ifndef TRIBUTARY_DEPLOY_CHART_LINE_CHART_H_
#define TRIBUTARY_DEPLOY_CHART_LINE_CHART_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/chart/svg_canvas.h"

namespace tributary {

struct LineChart {
  struct Series {
    std::string name;  // Of its last point's tooltip.
    SvgStroke stroke;
    // In the order in which they are joined. What is not finite is left out,
    // and the curve is broken there; points by themselves are drawn as dots.
    std::vector<SvgPoint> points;
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;  // The later ones above the earlier ones.
  // What lies above is cut off, so that one curve that runs away does not
  // flatten the others. Absent: nothing.
  absl::optional<double> most;
};

// `box` is where the chart goes, with title and labels.
void DrawLineChart(const LineChart& chart, const SvgBox& box,
                   SvgCanvas* canvas);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CHART_LINE_CHART_H_
