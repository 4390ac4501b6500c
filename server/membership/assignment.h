// How many of a step's leaves each worker gets.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

namespace tributary {

// How fast a worker computes.
struct WorkerPace {
  double micro_batch_seconds = 1;  // One leaf, on one thread. Above 0.
  int threads = 1;                 // Leaves at the same time. At least 1.
};

// What decides how long a step takes.
struct StepCosts {
  // In the order in which they get their runs of leaves.
  std::vector<WorkerPace> workers;
  // For one contribution of the whole model, as far as computing does not hide
  // it. Where it is above 0 the number of leaves must be a power of two.
  double transfer_seconds = 0;
};

// Shares say how many leaves each worker gets; worker 0 the first ones, and so
// on.
using Assignment = std::vector<int64_t>;

// Until the last worker is done. Each computes its leaves, as many at a time as
// it has threads, and moves one contribution for each maximal subtree of its
// run (see MaximalSubtrees), and the new weights.
double PredictSeconds(const Assignment& assignment, const StepCosts& costs);

// Shares that add up to `micro_batches` and differ by one at most. With more
// workers than leaves, the first ones get one each.
Assignment EqualAssignment(int64_t micro_batches, int64_t workers);

// Shares that add up to `micro_batches` and are predicted to be fast: the
// fastest of all where transfer_seconds is 0, else the best of those that are
// the fastest in computing among multiples of 1, 2, 4, ... leaves. Each worker
// gets at least one leaf: without any it could not show that it is faster than
// it seemed. With more workers than leaves the slowest get none.
Assignment FastestAssignment(int64_t micro_batches, const StepCosts& costs);

// Equal shares, unless the fastest ones are worth it: those who are equally
// fast but for noise get equal shares.
Assignment ChooseAssignment(int64_t micro_batches, const StepCosts& costs);

// The shares take so much longer than the fastest ones that dealing anew, which
// makes some leaves be computed twice, pays. The margin is wider than that of
// ChooseAssignment, so that nobody deals back and forth.
bool IsSlowAssignment(const Assignment& assignment, const StepCosts& costs);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_
