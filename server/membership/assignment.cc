#include "server/membership/assignment.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

#include "common/parameters/reduction_tree.h"

namespace tributary {
namespace {

// The equal assignment is chosen if it takes at most this many times as long as
// the fastest assignment.
constexpr double kEqualMargin = 1.05;
// The assignment in use is kept if it takes at most this many times as long as
// the fastest assignment.
constexpr double kSlowMargin = 1.1;

double ComputeSeconds(int64_t micro_batches, const WorkerPace& pace) {
  const int64_t rounds = (micro_batches + pace.threads - 1) / pace.threads;
  return static_cast<double>(rounds) * pace.micro_batch_seconds;
}

int64_t Sum(const Assignment& assignment) {
  return std::accumulate(assignment.begin(), assignment.end(), int64_t{0});
}

// Returns the assignment in multiples of `unit` micro-batches whose computation
// takes the least time. Greedy: each worker gets one unit if there are enough,
// then each further unit goes to the worker that would finish it first. This is
// optimal: in any other assignment, some worker has more units than here, and
// it finishes the extra unit no earlier than the last worker here finishes.
Assignment FastestUnits(int64_t units, int64_t unit,
                        const std::vector<WorkerPace>& workers) {
  const bool enough = units >= static_cast<int64_t>(workers.size());
  Assignment assignment(workers.size(), enough ? unit : 0);
  if (enough) units -= static_cast<int64_t>(workers.size());
  // (time at which the worker would finish one more unit, its micro-batches so
  // far, worker). Of workers with equal times, the one with the fewest
  // micro-batches is next.
  using Next = std::tuple<double, int64_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t w = 0; w < workers.size(); ++w) {
    next.emplace(ComputeSeconds(assignment[w] + unit, workers[w]),
                 assignment[w], w);
  }
  for (; units > 0 && !next.empty(); --units) {
    const size_t w = std::get<size_t>(next.top());
    next.pop();
    assignment[w] += unit;
    next.emplace(ComputeSeconds(assignment[w] + unit, workers[w]),
                 assignment[w], w);
  }
  return assignment;
}

}  // namespace

double PredictSeconds(const Assignment& assignment, const StepCosts& costs) {
  const int micro_batches = static_cast<int>(Sum(assignment));
  double longest = 0;
  int begin = 0;
  for (size_t w = 0; w < assignment.size(); ++w) {
    if (assignment[w] == 0) continue;
    const int end = begin + static_cast<int>(assignment[w]);
    double seconds = ComputeSeconds(assignment[w], costs.workers[w]);
    if (costs.transfer_seconds > 0) {
      const size_t contributions =
          MaximalSubtrees({begin, end}, micro_batches).size();
      seconds +=
          static_cast<double>(contributions + 1) * costs.transfer_seconds;
    }
    longest = std::max(longest, seconds);
    begin = end;
  }
  return longest;
}

Assignment EqualAssignment(int64_t micro_batches, int64_t workers) {
  const int64_t computing = std::min(micro_batches, workers);
  Assignment assignment(workers, 0);
  for (int64_t w = 0; w < computing; ++w) {
    assignment[w] =
        (w + 1) * micro_batches / computing - w * micro_batches / computing;
  }
  return assignment;
}

Assignment FastestAssignment(int64_t micro_batches, const StepCosts& costs) {
  Assignment best = FastestUnits(micro_batches, /*unit=*/1, costs.workers);
  if (costs.transfer_seconds <= 0 || best.empty()) return best;
  // Larger units result in fewer contributions.
  const auto workers = static_cast<int64_t>(costs.workers.size());
  double best_seconds = PredictSeconds(best, costs);
  for (int64_t unit = 2; micro_batches / unit >= workers; unit *= 2) {
    Assignment assignment =
        FastestUnits(micro_batches / unit, unit, costs.workers);
    const double seconds = PredictSeconds(assignment, costs);
    if (seconds >= best_seconds) continue;
    best = std::move(assignment);
    best_seconds = seconds;
  }
  return best;
}

Assignment ChooseAssignment(int64_t micro_batches, const StepCosts& costs) {
  Assignment equal = EqualAssignment(
      micro_batches, static_cast<int64_t>(costs.workers.size()));
  Assignment fastest = FastestAssignment(micro_batches, costs);
  const bool worth_it = PredictSeconds(equal, costs) >
                        kEqualMargin * PredictSeconds(fastest, costs);
  return worth_it ? fastest : equal;
}

bool IsSlowAssignment(const Assignment& assignment, const StepCosts& costs) {
  return PredictSeconds(assignment, costs) >
         kSlowMargin *
             PredictSeconds(FastestAssignment(Sum(assignment), costs), costs);
}

}  // namespace tributary
