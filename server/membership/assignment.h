// Divides the micro-batches of a step among the workers.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

namespace tributary {

// The speed of a worker.
struct WorkerPace {
  // Time in seconds that one thread takes to compute a micro-batch; above 0.
  double micro_batch_seconds = 1;
  // Number of micro-batches that are computed at the same time; at least 1.
  int threads = 1;
};

// The costs that determine the duration of a step.
struct StepCosts {
  // The workers, in the order of the micro-batches that they compute.
  std::vector<WorkerPace> workers;
  // Seconds that a worker takes to send one node of the reduction tree, that
  // is, the node's sums for all chunks. Time that overlaps with computation is
  // not counted. If 0, PredictSeconds ignores transfers. Otherwise it adds this
  // time once for each node that a worker sends, and once for the weights that
  // it receives; the number of micro-batches must then be a power of two.
  double transfer_seconds = 0;
};

// The number of a step's micro-batches that each worker computes. Worker 0 gets
// the first micro-batches, worker 1 gets those that follow, and so on.
using Assignment = std::vector<int64_t>;

// Returns the predicted time until the last worker has finished its step. Each
// worker computes its micro-batches, as many at a time as it has threads. It
// then transfers one contribution for each maximal subtree of its micro-batches
// (see MaximalSubtrees), and receives the new weights.
double PredictSeconds(const Assignment& assignment, const StepCosts& costs);

// Returns an assignment of `micro_batches` micro-batches in which the workers'
// numbers of micro-batches differ by at most one. With more workers than
// micro-batches, the first workers get one each, and the others get none.
Assignment EqualAssignment(int64_t micro_batches, int64_t workers);

// Returns an assignment of `micro_batches` micro-batches for which
// PredictSeconds is small. If there are enough micro-batches, each worker gets
// at least one, because its speed can only be measured while it computes.
// Otherwise some workers, among them the slowest, get none. If transfer_seconds
// is 0, the result is the fastest assignment that meets these conditions.
// Otherwise, for units of 1, 2, 4, ... micro-batches, computes the assignment
// in whole units whose computation takes the least time, and returns the one of
// these for which PredictSeconds is smallest.
Assignment FastestAssignment(int64_t micro_batches, const StepCosts& costs);

// Returns FastestAssignment if it is faster than EqualAssignment by a margin,
// otherwise EqualAssignment. The margin keeps the assignment equal when speeds
// differ only by noise.
Assignment ChooseAssignment(int64_t micro_batches, const StepCosts& costs);

// Returns true if the result of FastestAssignment is so much faster than
// `assignment` that reassigning saves time, even though some micro-batches are
// then computed twice. The required gain is larger than the margin in
// ChooseAssignment, to keep the assignment from oscillating.
bool IsSlowAssignment(const Assignment& assignment, const StepCosts& costs);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_ASSIGNMENT_H_
