#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_PARAMETER_IMPORTANCE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_PARAMETER_IMPORTANCE_H_

#include <vector>

#include "deploy/tools/tune/search/search_space.h"

namespace tributary {

// What a trial has reached.
struct ScoredPoint {
  SearchPoint point;  // A point of the space.
  double value = 0;   // Lower is better. Finite.
};

// Returns how much each parameter of the space matters for being one of the
// best tenth of the trials: numbers of at least 0, whose sum is 1. All are
// equal if the trials do not show a difference; with fewer than about 50
// trials, they are rough.
//
// Source: PED-ANOVA (Watanabe, Bansal and Hutter, 2023, arXiv 2304.10255): the
// importance of a parameter is the Pearson divergence between the densities of
// its values in the best trials and in all trials, which Parzen estimators with
// Scott's bandwidth estimate on a grid of at most 50 values. A parameter with a
// condition is compared among the trials that have it, weighted as in
// conditional PED-ANOVA (arXiv 2601.20800). The results equal those of Optuna
// 5's PedAnovaImportanceEvaluator.
std::vector<double> ParameterImportances(
    const SearchSpace& space, const std::vector<ScoredPoint>& trials);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_PARAMETER_IMPORTANCE_H_
