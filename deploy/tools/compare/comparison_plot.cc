#include "deploy/tools/compare/comparison_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/text/counted.h"
#include "deploy/tools/chart/bar_chart.h"
#include "deploy/tools/chart/line_chart.h"
#include "deploy/tools/chart/svg_canvas.h"

namespace tributary {
namespace {

constexpr double kWidth = 1240;
constexpr double kMargin = 20;
constexpr double kGap = 24;
constexpr double kColumn = (kWidth - 2 * kMargin - kGap) / 2;
constexpr double kTitle = 66;
constexpr double kLegendRow = 24;
constexpr double kLineChart = 330;

// A run whose loss exceeds its initial loss by this factor has diverged.
constexpr double kRunaway = 1.2;

// The palette of Okabe and Ito, without yellow, which has little contrast on
// white.
constexpr const char* kColors[] = {"#0072B2", "#56B4E9", "#009E73", "#E69F00",
                                   "#CC79A7", "#D55E00", "#000000"};
constexpr char kComputeColor[] = "#0072B2";
constexpr char kDataColor[] = "#F0E442";
constexpr char kExchangeColor[] = "#D55E00";
constexpr char kWaitingColor[] = "#E69F00";
constexpr char kOtherColor[] = "#BBBBBB";
constexpr char kServerColor[] = "#D55E00";
constexpr char kWorkerColor[] = "#56B4E9";
constexpr char kOutColor[] = "#009E73";
constexpr char kInColor[] = "#CC79A7";

// Runs with equal losses produce curves on top of each other. The first curve
// is the widest, so that its edge stays visible below the others.
SvgStroke StrokeOf(size_t number, size_t count) {
  constexpr size_t kColorCount = sizeof(kColors) / sizeof(kColors[0]);
  SvgStroke stroke;
  stroke.color = kColors[number % kColorCount];
  const double widest = std::min(6.0, 1.5 + 0.8 * static_cast<double>(count));
  const double share =
      count > 1 ? static_cast<double>(number) / static_cast<double>(count - 1)
                : 1;
  stroke.width = widest + (1.4 - widest) * share;
  if (number >= kColorCount) stroke.dashes = "7 4";
  return stroke;
}

// A unit in which the largest of several values is readable.
struct Unit {
  double size = 1;
  std::string name;
};

Unit ByteUnit(double largest) {
  if (largest >= 2e9) return {1e9, "GB"};
  if (largest >= 2e6) return {1e6, "MB"};
  return {1e3, "kB"};
}

std::string Short(double value) {
  if (!std::isfinite(value)) return "?";
  return absl::StrFormat(value >= 99.95  ? "%.0f"
                         : value >= 9.95 ? "%.1f"
                                         : "%.2f",
                         value);
}

// Returns the reason why there is no bar; empty if there is one.
std::string ResultOf(const ComparedRun& run) {
  return run.state == ComparedRun::State::kDone ? "" : StateName(run.state);
}

LineChart LossChart(const Comparison& comparison, bool over_time) {
  LineChart chart;
  chart.title = over_time ? "Loss over time" : "Loss over steps";
  chart.x_label = over_time ? "seconds of training" : "steps";
  chart.y_label = "training loss";
  double first = 0;
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    LineChart::Series series;
    series.name = run.name;
    series.stroke = StrokeOf(i, comparison.runs.size());
    for (const LossPoint& point : run.losses) {
      series.points.push_back(
          {over_time ? point.seconds : static_cast<double>(point.step),
           point.loss});
    }
    if (!run.losses.empty() && std::isfinite(run.losses[0].loss)) {
      first = std::max(first, run.losses[0].loss);
    }
    chart.series.push_back(std::move(series));
  }
  if (first > 0) chart.most = kRunaway * first;
  return chart;
}

BarChart TimeChart(const Comparison& comparison) {
  BarChart chart;
  chart.title = "Where the time of a step goes";
  chart.x_label = "milliseconds per step, mean of the workers";
  chart.keys = {{"computing", kComputeColor},
                {"exposed exchange", kExchangeColor},
                {"waiting", kWaitingColor},
                {"data", kDataColor},
                {"other", kOtherColor}};
  chart.marker_name = "predicted";
  for (const ComparedRun& run : comparison.runs) {
    BarChart::Bar bar;
    bar.label = run.name;
    bar.end = ResultOf(run);
    if (run.figures.has_value()) {
      const RunFigures& f = *run.figures;
      const auto add = [&](const char* name, double value, const char* color) {
        bar.parts.push_back(
            {value, color, absl::StrCat(name, ": ", Short(value), " ms")});
      };
      add("computing", f.compute_ms, kComputeColor);
      add("exposed exchange", f.exchange_ms, kExchangeColor);
      add("waiting", f.waiting_ms.value_or(0), kWaitingColor);
      add("data", f.data_ms, kDataColor);
      add("other", f.other_ms, kOtherColor);
      bar.end = absl::StrCat(Short(f.step_ms), " ms, ", run.transport);
      bar.marker = f.predicted_ms;
      bar.marker_tooltip =
          absl::StrCat("predicted: ", Short(f.predicted_ms.value_or(0)), " ms");
    }
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

// Draws one part for each process, with the length of `value`.
BarChart ProcessChart(const Comparison& comparison, const std::string& title,
                      const std::string& x_label,
                      double (*value)(const ProcessFigures&)) {
  BarChart chart;
  chart.title = title;
  chart.keys = {{"servers", kServerColor}, {"workers", kWorkerColor}};
  double largest = 0;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.figures.has_value()) continue;
    double sum = 0;
    for (const ProcessFigures& process : run.figures->processes) {
      sum += value(process);
    }
    largest = std::max(largest, sum);
  }
  const Unit unit = ByteUnit(largest);
  chart.x_label = absl::StrCat(unit.name, " ", x_label);
  for (const ComparedRun& run : comparison.runs) {
    BarChart::Bar bar;
    bar.label = run.name;
    bar.end = ResultOf(run);
    if (run.figures.has_value()) {
      double sum = 0;
      for (const ProcessFigures& process : run.figures->processes) {
        const double size = value(process) / unit.size;
        sum += size;
        bar.parts.push_back(
            {size, process.role == "server" ? kServerColor : kWorkerColor,
             absl::StrCat(process.Name(), ": ", Short(size), " ", unit.name)});
      }
      bar.end = absl::StrCat(Short(sum), " ", unit.name);
    }
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

BarChart HostChart(const Comparison& comparison) {
  BarChart chart;
  chart.title = "With one host per worker: bytes through its link";
  chart.keys = {{"out", kOutColor}, {"in", kInColor}};
  double largest = 0;
  for (const HostFigures& host : comparison.hosts) {
    largest = std::max(largest, host.bytes_out + host.bytes_in);
  }
  const Unit unit = ByteUnit(largest);
  chart.x_label =
      absl::StrFormat("%s per step; predicted, for links of %.3g Gbit/s",
                      unit.name, 8e-9 * comparison.bandwidth);
  std::string placement;
  for (const HostFigures& host : comparison.hosts) {
    BarChart::Bar bar;
    bar.label = host.host;
    if (host.placement != placement) {
      placement = host.placement;
      bar.heading =
          absl::StrCat(placement, ": ", Short(host.step_ms), " ms per step");
    }
    const double out = host.bytes_out / unit.size;
    const double in = host.bytes_in / unit.size;
    bar.parts = {
        {out, kOutColor, absl::StrCat("out: ", Short(out), " ", unit.name)},
        {in, kInColor, absl::StrCat("in: ", Short(in), " ", unit.name)}};
    bar.end = absl::StrCat(Short(out + in), " ", unit.name);
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

// The legend: a sample of each curve and its name, in as many rows as needed.
class RunLegend {
 public:
  explicit RunLegend(const Comparison& comparison) : comparison_(comparison) {
    double x = kMargin;
    double y = kTitle + 16;
    for (const ComparedRun& run : comparison.runs) {
      const double width = 36 + SvgCanvas::TextWidth(run.name, 13) + 26;
      if (x + width > kWidth - kMargin && x > kMargin) {
        x = kMargin;
        y += kLegendRow;
      }
      places_.push_back({x, y});
      x += width;
    }
  }

  double bottom() const { return places_.empty() ? kTitle : places_.back().y; }

  void Draw(SvgCanvas* canvas) const {
    for (size_t i = 0; i < places_.size(); ++i) {
      const SvgPoint& at = places_[i];
      canvas->Line({at.x, at.y - 4}, {at.x + 30, at.y - 4},
                   StrokeOf(i, places_.size()));
      canvas->Text({at.x + 36, at.y}, comparison_.runs[i].name, {});
    }
  }

 private:
  const Comparison& comparison_;
  std::vector<SvgPoint> places_;  // Indexed by run.
};

// Explains why the plot over steps shows fewer curves than runs.
std::vector<std::string> SameCurves(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const std::vector<std::string>& names : RunsOfSameWeights(comparison)) {
    lines.push_back(absl::StrCat("the same weights, bit for bit: ",
                                 absl::StrJoin(names, ", ")));
  }
  return lines;
}

std::string Subtitle(const Comparison& comparison) {
  std::string text = absl::StrCat(Counted(comparison.workers, "worker"), ", ",
                                  Counted(comparison.threads, "thread"),
                                  comparison.workers == 1 ? "" : " each",
                                  ", on ", Counted(comparison.cores, "core"));
  for (const ComparedRun& run : comparison.runs) {
    if (!run.figures.has_value()) continue;
    absl::StrAppend(&text, ", ", WithCommas(run.figures->steps),
                    run.figures->steps == 1 ? " step" : " steps", ", ",
                    WithCommas(run.figures->parameters), " parameters");
    break;
  }
  return text;
}

}  // namespace

std::string ComparisonPlot(const Comparison& comparison) {
  const RunLegend legend(comparison);
  const BarChart left[] = {
      TimeChart(comparison),
      ProcessChart(
          comparison, "Sent by each process (measured)", "per step",
          [](const ProcessFigures& process) { return process.bytes_sent; })};
  const BarChart right[] = {
      ProcessChart(comparison, "Peak memory of each process",
                   "of resident memory",
                   [](const ProcessFigures& process) {
                     return process.peak_memory_bytes;
                   }),
      HostChart(comparison)};
  const std::vector<std::string> same = SameCurves(comparison);
  const double charts =
      legend.bottom() + kLegendRow * static_cast<double>(same.size()) + kGap;
  double height = charts + kLineChart + kGap;
  for (int row = 0; row < 2; ++row) {
    height +=
        std::max(BarChartHeight(left[row]), BarChartHeight(right[row])) + kGap;
  }

  const std::string title = absl::StrCat(
      comparison.job, " under ", Counted(comparison.runs.size(), "exchange"));
  SvgCanvas canvas(kWidth, height, title);
  SvgTextStyle heading;
  heading.size = 20;
  heading.bold = true;
  canvas.Text({kMargin, 34}, title, heading);
  canvas.Text({kMargin, 56}, Subtitle(comparison), {});
  legend.Draw(&canvas);
  double y = legend.bottom();
  for (const std::string& line : same) {
    y += kLegendRow;
    canvas.Text({kMargin, y}, line, {});
  }
  y = charts;
  const double second = kMargin + kColumn + kGap;
  DrawLineChart(LossChart(comparison, /*over_time=*/false),
                {kMargin, y, kColumn, kLineChart}, &canvas);
  DrawLineChart(LossChart(comparison, /*over_time=*/true),
                {second, y, kColumn, kLineChart}, &canvas);
  y += kLineChart + kGap;
  for (int row = 0; row < 2; ++row) {
    const double used =
        std::max(BarChartHeight(left[row]), BarChartHeight(right[row]));
    DrawBarChart(left[row], {kMargin, y, kColumn, used}, &canvas);
    DrawBarChart(right[row], {second, y, kColumn, used}, &canvas);
    y += used + kGap;
  }
  return canvas.Finish();
}

}  // namespace tributary
