// How many of a step's leaves each worker gets.
#ifndef TRIBUTARY_SERVER_LEAF_SHARES_H_
#define TRIBUTARY_SERVER_LEAF_SHARES_H_

#include <cstdint>
#include <vector>

namespace tributary {

// How fast a worker computes.
struct WorkerPace {
  double leaf_seconds = 1;  // One leaf, on one thread. Above 0.
  int threads = 1;          // Leaves at the same time. At least 1.
};

// Until a worker has computed `leaves`: its threads take whole leaves.
double SecondsFor(int64_t leaves, const WorkerPace& pace);

// Until the last worker has computed its share: shares[w] leaves at paces[w].
double SecondsForAll(const std::vector<int64_t>& shares,
                     const std::vector<WorkerPace>& paces);

// Shares that add up to `leaves` and differ by one at most. With more workers
// than leaves, the first ones get one each.
std::vector<int64_t> EqualShares(int64_t leaves, int64_t workers);

// Shares that add up to `leaves` and make SecondsForAll as small as it gets
// with at least one leaf for each worker: without any it could not show that it
// is faster than it seemed. With more workers than leaves the slowest get none.
std::vector<int64_t> FastestShares(int64_t leaves,
                                   const std::vector<WorkerPace>& paces);

// Equal shares, unless the fastest ones are worth it: those who are equally
// fast but for noise get equal shares.
std::vector<int64_t> ChooseShares(int64_t leaves,
                                  const std::vector<WorkerPace>& paces);

// The shares take so much longer than the fastest ones that dealing anew, which
// makes some leaves be computed twice, pays. The margin is wider than that of
// ChooseShares, so that nobody deals back and forth.
bool SharesAreSlow(const std::vector<int64_t>& shares,
                   const std::vector<WorkerPace>& paces);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_LEAF_SHARES_H_
