// Divides a sequence into contiguous parts, exactly, by dynamic programming.
#ifndef TRIBUTARY_COMMON_PIPELINE_STAGE_PARTITION_H_
#define TRIBUTARY_COMMON_PIPELINE_STAGE_PARTITION_H_

#include <vector>

#include "absl/functional/function_ref.h"

namespace tributary {

// Returns the cost, at least 0, of stage `stage` if it consists of the segments
// [begin, end), which are never empty. Infinite if it must not.
using StageCost = absl::FunctionRef<double(int stage, int begin, int end)>;

// Divide `segments` segments into `stages` stages, each of at least one
// segment. Return the first segment of each stage, and `segments` at the end.
// Return an empty vector if every partition has a stage of infinite cost, or
// there are fewer segments than stages. Call `cost` at most
// stages * segments^2 / 2 times.

// Minimizes the largest cost of a stage.
std::vector<int> MinimizeLargestCost(int segments, int stages, StageCost cost);

// Minimizes the sum of the costs of the stages.
std::vector<int> MinimizeSumOfCosts(int segments, int stages, StageCost cost);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_STAGE_PARTITION_H_
