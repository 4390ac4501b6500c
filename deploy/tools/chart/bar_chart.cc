#include "deploy/tools/chart/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "deploy/tools/chart/chart_axis.h"

namespace tributary {
namespace {

// Space for title and legend above, labels to the left and below, and the text
// after the longest bar to the right.
constexpr double kBarTop = 52;
constexpr double kBarBottom = 48;
constexpr double kBarRight = 16;
constexpr double kMostLabel = 210;
constexpr double kPitch = 27;
constexpr double kThickness = 19;
constexpr double kHeading = 22;
constexpr double kSize = 13;
constexpr int kBarTicks = 5;
// A marker is a line across its bar that extends slightly beyond it.
constexpr double kMarkerWidth = 3;
constexpr double kMarkerOverhang = 3;
constexpr char kMarkerColor[] = "#000000";

bool Drawn(const BarChart::Part& part) {
  return std::isfinite(part.value) && part.value > 0;
}

bool HasMarker(const BarChart::Bar& bar) {
  return bar.marker.has_value() && std::isfinite(*bar.marker);
}

double Length(const BarChart::Bar& bar) {
  double length = 0;
  for (const BarChart::Part& part : bar.parts) {
    if (Drawn(part)) length += part.value;
  }
  return length;
}

class BarPlot {
 public:
  BarPlot(const BarChart& chart, const SvgBox& box, SvgCanvas* canvas)
      : chart_(chart),
        left_(box.x),
        area_(AreaIn(box)),
        longest_(Longest()),
        canvas_(*canvas) {}

  void Draw() {
    SvgTextStyle heading;
    heading.size = 15;
    heading.bold = true;
    canvas_.Text({left_, area_.y - 34}, chart_.title, heading);
    DrawLegend();
    DrawAxis();
    double y = area_.y;
    for (const BarChart::Bar& bar : chart_.bars) {
      if (!bar.heading.empty()) {
        SvgTextStyle bold;
        bold.bold = true;
        bold.size = kSize;
        // Hides the grid lines behind the heading.
        canvas_.Rectangle({left_, y, area_.right() - left_, kHeading}, "white");
        canvas_.Text({left_, y + 17}, bar.heading, bold);
        y += kHeading;
      }
      DrawBar(bar, y + (kPitch - kThickness) / 2);
      y += kPitch;
    }
  }

 private:
  SvgBox AreaIn(const SvgBox& box) const {
    double label = 0;
    for (const BarChart::Bar& bar : chart_.bars) {
      label = std::max(label, SvgCanvas::TextWidth(bar.label, kSize));
    }
    const double left = std::min(kMostLabel, label + 14);
    return {box.x + left, box.y + kBarTop, box.width - left - kBarRight,
            BarChartHeight(chart_) - kBarTop - kBarBottom};
  }

  // Returns the length of the longest bar with its marker and the text after
  // it.
  double Longest() const {
    double longest = 0;
    for (const BarChart::Bar& bar : chart_.bars) {
      const double text =
          SvgCanvas::TextWidth(bar.end, kSize) + kMarkerWidth + 6;
      const double room = std::max(0.4, 1 - text / area_.width);
      longest = std::max(longest, Length(bar) / room);
      if (HasMarker(bar)) longest = std::max(longest, 1.02 * *bar.marker);
    }
    return longest;
  }

  double X(double value) const {
    return longest_ > 0 ? area_.x + area_.width * value / longest_ : area_.x;
  }

  void DrawLegend() {
    double x = left_;
    const double y = area_.y - 12;
    SvgTextStyle style;
    style.size = 12;
    const auto name = [&](const std::string& text) {
      canvas_.Text({x + 16, y}, text, style);
      x += 16 + SvgCanvas::TextWidth(text, style.size) + 18;
    };
    for (const BarChart::Key& key : chart_.keys) {
      canvas_.Rectangle({x, y - 10, 12, 12}, key.color);
      name(key.name);
    }
    if (chart_.marker_name.empty()) return;
    canvas_.Rectangle({x + 6, y - 12, kMarkerWidth, 16}, kMarkerColor);
    name(chart_.marker_name);
  }

  void DrawAxis() {
    SvgTextStyle label;
    label.anchor = SvgTextStyle::Anchor::kMiddle;
    label.size = kSize;
    const ChartAxis axis(0, longest_, kBarTicks);
    for (const double tick : axis.Ticks()) {
      if (tick > longest_) break;
      canvas_.Line({X(tick), area_.y}, {X(tick), area_.bottom()},
                   {tick == 0 ? "#888888" : "#e3e3e3"});
      canvas_.Text({X(tick), area_.bottom() + 18}, axis.Label(tick), label);
    }
    canvas_.Text({area_.x + area_.width / 2, area_.bottom() + 38},
                 chart_.x_label, label);
  }

  void DrawBar(const BarChart::Bar& bar, double y) {
    SvgTextStyle label;
    label.size = kSize;
    label.anchor = SvgTextStyle::Anchor::kEnd;
    canvas_.Text({area_.x - 8, y + 14}, bar.label, label);
    double length = 0;
    for (const BarChart::Part& part : bar.parts) {
      if (!Drawn(part)) continue;
      const SvgBox box{X(length), y, X(length + part.value) - X(length),
                       kThickness};
      canvas_.Rectangle(box, part.color, part.tooltip);
      length += part.value;
      // Separates adjacent parts of the same color.
      canvas_.Line({X(length), y}, {X(length), y + kThickness}, {"white"});
    }
    double end = X(length);
    if (HasMarker(bar)) {
      const SvgBox marker{X(std::max(0.0, *bar.marker)) - kMarkerWidth / 2,
                          y - kMarkerOverhang, kMarkerWidth,
                          kThickness + 2 * kMarkerOverhang};
      canvas_.Rectangle(marker, kMarkerColor, bar.marker_tooltip);
      // Keeps the text clear of the marker.
      end = std::max(end, marker.right());
    }
    label.anchor = SvgTextStyle::Anchor::kStart;
    canvas_.Text({end + 6, y + 14}, bar.end, label);
  }

  const BarChart& chart_;
  const double left_;  // Left edge of title and legend.
  const SvgBox area_;
  const double longest_;  // The value at the right edge.
  SvgCanvas& canvas_;
};

}  // namespace

double BarChartHeight(const BarChart& chart) {
  double height = kBarTop + kBarBottom + 4;
  for (const BarChart::Bar& bar : chart.bars) {
    height += kPitch + (bar.heading.empty() ? 0 : kHeading);
  }
  return height;
}

void DrawBarChart(const BarChart& chart, const SvgBox& box, SvgCanvas* canvas) {
  BarPlot(chart, box, canvas).Draw();
}

}  // namespace tributary
