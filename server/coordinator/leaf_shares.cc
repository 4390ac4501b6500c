#include "server/coordinator/leaf_shares.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

#include "common/parameters/reduction_tree.h"

namespace tributary {
namespace {

// Equal shares may take so much longer than the fastest.
constexpr double kEqualMargin = 1.05;
// Shares that are in use may take so much longer.
constexpr double kSlowMargin = 1.1;

double ComputeSeconds(int64_t leaves, const WorkerPace& pace) {
  const int64_t rounds = (leaves + pace.threads - 1) / pace.threads;
  return static_cast<double>(rounds) * pace.leaf_seconds;
}

int64_t Sum(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

// The fastest shares in computing, of multiples of `unit` leaves. The first
// unit to each, where there are enough, then one by one to whoever would be
// done with it first. No other such shares are faster: whoever gets more in
// them than here would have been given the next one here, had it been done with
// it before the last of these was given away.
Shares FastestUnits(int64_t units, int64_t unit,
                    const std::vector<WorkerPace>& workers) {
  const bool enough = units >= static_cast<int64_t>(workers.size());
  Shares shares(workers.size(), enough ? unit : 0);
  if (enough) units -= static_cast<int64_t>(workers.size());
  // When done with one more, leaves so far, worker: of those that would be done
  // together, the one with the fewest leaves is next.
  using Next = std::tuple<double, int64_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t w = 0; w < workers.size(); ++w) {
    next.emplace(ComputeSeconds(shares[w] + unit, workers[w]), shares[w], w);
  }
  for (; units > 0 && !next.empty(); --units) {
    const size_t w = std::get<size_t>(next.top());
    next.pop();
    shares[w] += unit;
    next.emplace(ComputeSeconds(shares[w] + unit, workers[w]), shares[w], w);
  }
  return shares;
}

}  // namespace

double PredictSeconds(const Shares& shares, const StepCosts& costs) {
  const int leaves = static_cast<int>(Sum(shares));
  double longest = 0;
  int begin = 0;
  for (size_t w = 0; w < shares.size(); ++w) {
    if (shares[w] == 0) continue;
    const int end = begin + static_cast<int>(shares[w]);
    double seconds = ComputeSeconds(shares[w], costs.workers[w]);
    if (costs.transfer_seconds > 0) {
      const size_t contributions = MaximalSubtrees({begin, end}, leaves).size();
      seconds +=
          static_cast<double>(contributions + 1) * costs.transfer_seconds;
    }
    longest = std::max(longest, seconds);
    begin = end;
  }
  return longest;
}

Shares EqualShares(int64_t leaves, int64_t workers) {
  const int64_t computing = std::min(leaves, workers);
  Shares shares(workers, 0);
  for (int64_t w = 0; w < computing; ++w) {
    shares[w] = (w + 1) * leaves / computing - w * leaves / computing;
  }
  return shares;
}

Shares FastestShares(int64_t leaves, const StepCosts& costs) {
  Shares best = FastestUnits(leaves, /*unit=*/1, costs.workers);
  if (costs.transfer_seconds <= 0 || best.empty()) return best;
  // Multiples of larger units make fewer contributions.
  const auto workers = static_cast<int64_t>(costs.workers.size());
  double best_seconds = PredictSeconds(best, costs);
  for (int64_t unit = 2; leaves / unit >= workers; unit *= 2) {
    Shares shares = FastestUnits(leaves / unit, unit, costs.workers);
    const double seconds = PredictSeconds(shares, costs);
    if (seconds >= best_seconds) continue;
    best = std::move(shares);
    best_seconds = seconds;
  }
  return best;
}

Shares ChooseShares(int64_t leaves, const StepCosts& costs) {
  Shares equal =
      EqualShares(leaves, static_cast<int64_t>(costs.workers.size()));
  Shares fastest = FastestShares(leaves, costs);
  const bool worth_it = PredictSeconds(equal, costs) >
                        kEqualMargin * PredictSeconds(fastest, costs);
  return worth_it ? fastest : equal;
}

bool SharesAreSlow(const Shares& shares, const StepCosts& costs) {
  return PredictSeconds(shares, costs) >
         kSlowMargin * PredictSeconds(FastestShares(Sum(shares), costs), costs);
}

}  // namespace tributary
