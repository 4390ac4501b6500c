// The results of trials, and their order.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_TRIAL_RESULT_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_TRIAL_RESULT_H_

#include <vector>

namespace tributary {

// What a trial has reached after some number of steps.
struct TrialResult {
  // The objectives, in the order of the search file. All are finite.
  std::vector<double> values;
  // By how much each constraint is violated: 0 or less if it is satisfied.
  std::vector<double> violations;
};

// Returns the sum of the violations that are above 0.
double TotalViolation(const TrialResult& result);

// Returns true if `a` is better than `b`: if it satisfies the constraints and
// `b` does not; if it violates them less; or, if both satisfy them, if it is at
// least as good in all objectives and better in one. `maximize` has a member
// for each objective.
bool IsBetter(const TrialResult& a, const TrialResult& b,
              const std::vector<bool>& maximize);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_TRIAL_RESULT_H_
