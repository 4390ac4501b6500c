// Draws a comparison as one picture.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_PLOT_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_PLOT_H_

#include <string>

#include "deploy/tools/compare/comparison.h"

namespace tributary {

// Returns an SVG document with charts of the loss over steps and over time, the
// components of the step time, and memory and bytes of processes and hosts. The
// palette suits color-blind readers (Okabe and Ito, 2008).
std::string ComparisonPlot(const Comparison& comparison);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_PLOT_H_
