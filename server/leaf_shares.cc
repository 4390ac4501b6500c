#include "server/leaf_shares.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace tributary {
namespace {

// Equal shares may take so much longer than the fastest.
constexpr double kEqualMargin = 1.05;
// Shares that are in use may take so much longer.
constexpr double kSlowMargin = 1.1;

}  // namespace

double SecondsFor(int64_t leaves, const WorkerPace& pace) {
  const int64_t rounds = (leaves + pace.threads - 1) / pace.threads;
  return static_cast<double>(rounds) * pace.leaf_seconds;
}

double SecondsForAll(const std::vector<int64_t>& shares,
                     const std::vector<WorkerPace>& paces) {
  double longest = 0;
  for (size_t w = 0; w < shares.size(); ++w) {
    longest = std::max(longest, SecondsFor(shares[w], paces[w]));
  }
  return longest;
}

std::vector<int64_t> EqualShares(int64_t leaves, int64_t workers) {
  const int64_t computing = std::min(leaves, workers);
  std::vector<int64_t> shares(workers, 0);
  for (int64_t w = 0; w < computing; ++w) {
    shares[w] = (w + 1) * leaves / computing - w * leaves / computing;
  }
  return shares;
}

// The first leaf to each, then leaf by leaf to whoever would be done with it
// first. No other such shares are faster: whoever gets more leaves in them than
// here would have been given the next one here, had it been done with it before
// the last of these was given away.
std::vector<int64_t> FastestShares(int64_t leaves,
                                   const std::vector<WorkerPace>& paces) {
  const bool enough = leaves >= static_cast<int64_t>(paces.size());
  std::vector<int64_t> shares(paces.size(), enough ? 1 : 0);
  if (enough) leaves -= static_cast<int64_t>(paces.size());
  // When done with one leaf more, leaves so far, worker: of those that would be
  // done together, the one with the fewest leaves is next.
  using Next = std::tuple<double, int64_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t w = 0; w < paces.size(); ++w) {
    next.emplace(SecondsFor(shares[w] + 1, paces[w]), shares[w], w);
  }
  for (int64_t leaf = 0; leaf < leaves && !next.empty(); ++leaf) {
    const size_t w = std::get<size_t>(next.top());
    next.pop();
    ++shares[w];
    next.emplace(SecondsFor(shares[w] + 1, paces[w]), shares[w], w);
  }
  return shares;
}

std::vector<int64_t> ChooseShares(int64_t leaves,
                                  const std::vector<WorkerPace>& paces) {
  std::vector<int64_t> equal =
      EqualShares(leaves, static_cast<int64_t>(paces.size()));
  std::vector<int64_t> fastest = FastestShares(leaves, paces);
  const bool worth_it = SecondsForAll(equal, paces) >
                        kEqualMargin * SecondsForAll(fastest, paces);
  return worth_it ? fastest : equal;
}

bool SharesAreSlow(const std::vector<int64_t>& shares,
                   const std::vector<WorkerPace>& paces) {
  const int64_t leaves =
      std::accumulate(shares.begin(), shares.end(), int64_t{0});
  const std::vector<int64_t> fastest = FastestShares(leaves, paces);
  return SecondsForAll(shares, paces) >
         kSlowMargin * SecondsForAll(fastest, paces);
}

}  // namespace tributary
