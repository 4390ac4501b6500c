// Chooses the range and the ticks of a chart's axis.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CHART_CHART_AXIS_H_
#define TRIBUTARY_DEPLOY_TOOLS_CHART_CHART_AXIS_H_

#include <string>
#include <vector>

namespace tributary {

// A linear axis whose ticks are multiples of 1, 2 or 5 times a power of ten.
class ChartAxis {
 public:
  // Covers the values from `low` to `high`, divided by ticks into about `ticks`
  // intervals; `ticks` must be at least 1. If `low` equals `high`, covers a
  // range that contains this value. If one of the values is not finite, or if
  // `low` is larger than `high`, covers 0 to 1.
  ChartAxis(double low, double high, int ticks);

  // Return the ends of the axis. The first tick is at low(), and the last tick
  // is at high().
  double low() const { return low_; }
  double high() const { return high_; }
  // Returns the values of all ticks, in ascending order.
  std::vector<double> Ticks() const;
  // Returns the label of a tick, with as many decimals as the ticks of this
  // axis need, or with an exponent if values are very large or ticks very
  // close.
  std::string Label(double tick) const;

  // Returns the position of a value: 0 at low(), 1 at high().
  double Share(double value) const { return (value - low_) / (high_ - low_); }

 private:
  double step_ = 1;
  double low_ = 0;
  double high_ = 1;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CHART_CHART_AXIS_H_
