// A comparison as one picture.
#ifndef TRIBUTARY_DEPLOY_COMPARE_COMPARISON_PLOT_H_
#define TRIBUTARY_DEPLOY_COMPARE_COMPARISON_PLOT_H_

#include <string>

#include "deploy/compare/comparison.h"

namespace tributary {

// An SVG document: loss over steps and over time, where the time of a step
// goes, and memory and bytes of processes and hosts. Colors can be told apart
// by the color-blind (Okabe and Ito, 2008).
std::string ComparisonPlot(const Comparison& comparison);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_PLOT_H_
