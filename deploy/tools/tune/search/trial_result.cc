#include "deploy/tools/tune/search/trial_result.h"

#include <cstddef>

namespace tributary {

double TotalViolation(const TrialResult& result) {
  double total = 0;
  for (const double violation : result.violations) {
    if (violation > 0) total += violation;
  }
  return total;
}

bool IsBetter(const TrialResult& a, const TrialResult& b,
              const std::vector<bool>& maximize) {
  const double violation_a = TotalViolation(a);
  const double violation_b = TotalViolation(b);
  if (violation_a != violation_b) return violation_a < violation_b;
  if (violation_a > 0) return false;
  bool better = false;
  for (size_t i = 0; i < maximize.size(); ++i) {
    if (a.values[i] == b.values[i]) continue;
    if ((a.values[i] < b.values[i]) == maximize[i]) return false;
    better = true;
  }
  return better;
}

}  // namespace tributary
