#include "focal_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

tributary::LossFunction::Sums FocalLoss::Compute(const Arguments& args) const {
  Sums sums;
  std::vector<double> p(classes_);
  for (int64_t sample = 0; sample < args.samples; ++sample) {
    const float* const x = args.x + sample * classes_;
    const int32_t label = args.labels[sample];
    if (label < 0) {  // The sample does not count.
      if (args.gradient != nullptr) {
        std::fill_n(args.gradient + sample * classes_, classes_, 0.0f);
      }
      continue;
    }
    const float* const most = std::max_element(x, x + classes_);
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += p[c] = std::exp(x[c] - *most);
    for (int64_t c = 0; c < classes_; ++c) p[c] /= sum;
    const double right = p[label];
    // Above 0, because its power may be negative.
    const double wrong = std::max(1 - right, 1e-12);
    const double rest = std::pow(wrong, focus_);
    sums.loss -= rest * std::log(right);
    sums.correct += most - x == label ? 1 : 0;
    if (args.gradient == nullptr) continue;
    // dloss / dx[c] = slope * ((c == label) - p[c])
    const double slope =
        focus_ * right * std::pow(wrong, focus_ - 1) * std::log(right) - rest;
    for (int64_t c = 0; c < classes_; ++c) {
      args.gradient[sample * classes_ + c] =
          static_cast<float>(slope * ((c == label ? 1 : 0) - p[c]));
    }
  }
  return sums;
}
