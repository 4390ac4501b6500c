#include "deploy/tools/chart/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "deploy/tools/chart/chart_axis.h"

namespace tributary {
namespace {

// Space around the plot: title above, labels to the left and below.
constexpr double kLineTop = 30;
constexpr double kLeft = 62;
constexpr double kLineRight = 16;
constexpr double kLineBottom = 48;
constexpr double kDotRadius = 3.5;
constexpr int kLineTicks = 6;
constexpr char kGrid[] = "#e3e3e3";

bool Finite(const SvgPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

// The smallest and the largest coordinates of the points.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

class LinePlot {
 public:
  LinePlot(const LineChart& chart, const SvgBox& box, SvgCanvas* canvas)
      : chart_(chart),
        area_{box.x + kLeft, box.y + kLineTop, box.width - kLeft - kLineRight,
              box.height - kLineTop - kLineBottom},
        x_axis_(Axis(/*vertical=*/false)),
        y_axis_(Axis(/*vertical=*/true)),
        canvas_(*canvas) {}

  void Draw() {
    SvgTextStyle heading;
    heading.size = 15;
    heading.bold = true;
    canvas_.Text({area_.x, area_.y - 12}, chart_.title, heading);
    DrawXAxis();
    DrawYAxis();
    canvas_.Outline(area_, {"#888888"});
    // Extends the clip so that a line on the edge is fully visible.
    canvas_.BeginClip(
        {area_.x - 3, area_.y, area_.width + 6, area_.height + 3});
    for (const LineChart::Series& series : chart_.series) DrawSeries(series);
    canvas_.EndClip();
  }

 private:
  ChartAxis Axis(bool vertical) const {
    Range range;
    for (const LineChart::Series& series : chart_.series) {
      for (const SvgPoint& point : series.points) {
        if (!Finite(point)) continue;
        if (!vertical) {
          range.Add(point.x);
        } else if (!chart_.most.has_value() || point.y <= *chart_.most) {
          range.Add(point.y);
        }
      }
    }
    if (!vertical) range.low = std::min(range.low, 0.0);
    return ChartAxis(range.low, range.high, kLineTicks);
  }

  SvgPoint At(const SvgPoint& point) const {
    // Limits positions beyond the edge, which the clip hides anyway.
    const double share = std::max(-1.0, std::min(2.0, y_axis_.Share(point.y)));
    return {area_.x + area_.width * x_axis_.Share(point.x),
            area_.bottom() - area_.height * share};
  }

  void DrawXAxis() {
    SvgTextStyle label;
    label.anchor = SvgTextStyle::Anchor::kMiddle;
    for (const double tick : x_axis_.Ticks()) {
      const double x = area_.x + area_.width * x_axis_.Share(tick);
      canvas_.Line({x, area_.y}, {x, area_.bottom()}, {kGrid});
      canvas_.Text({x, area_.bottom() + 18}, x_axis_.Label(tick), label);
    }
    canvas_.Text({area_.x + area_.width / 2, area_.bottom() + 38},
                 chart_.x_label, label);
  }

  void DrawYAxis() {
    SvgTextStyle label;
    label.anchor = SvgTextStyle::Anchor::kEnd;
    for (const double tick : y_axis_.Ticks()) {
      const double y = area_.bottom() - area_.height * y_axis_.Share(tick);
      canvas_.Line({area_.x, y}, {area_.right(), y}, {kGrid});
      canvas_.Text({area_.x - 7, y + 4.5}, y_axis_.Label(tick), label);
    }
    label.anchor = SvgTextStyle::Anchor::kMiddle;
    label.upwards = true;
    canvas_.Text({area_.x - 46, area_.y + area_.height / 2}, chart_.y_label,
                 label);
  }

  void DrawSeries(const LineChart::Series& series) {
    std::vector<SvgPoint> run;
    const auto end_run = [&] {
      if (run.size() == 1) {
        canvas_.Circle(run[0], kDotRadius, series.stroke.color);
      } else if (!run.empty()) {
        canvas_.Polyline(run, series.stroke);
      }
      run.clear();
    };
    const SvgPoint* last = nullptr;
    for (const SvgPoint& point : series.points) {
      if (!Finite(point)) {
        end_run();
        continue;
      }
      run.push_back(At(point));
      last = &point;
    }
    end_run();
    if (last == nullptr) return;
    canvas_.Circle(
        At(*last), kDotRadius, series.stroke.color,
        absl::StrFormat("%s: %.5g at %.5g", series.name, last->y, last->x));
  }

  const LineChart& chart_;
  const SvgBox area_;
  const ChartAxis x_axis_;
  const ChartAxis y_axis_;
  SvgCanvas& canvas_;
};

}  // namespace

void DrawLineChart(const LineChart& chart, const SvgBox& box,
                   SvgCanvas* canvas) {
  LinePlot(chart, box, canvas).Draw();
}

}  // namespace tributary
