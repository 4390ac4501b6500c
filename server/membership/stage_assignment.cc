#include "server/membership/stage_assignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace tributary {
namespace {

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();
// Weights of the parts of a division's cost, from the most important to the
// least important one. A pipeline has at most 64 stages, so that no sum of one
// part reaches the weight of the next.
constexpr int64_t kChangedWorker = int64_t{1} << 32;
constexpr int64_t kGainedStage = int64_t{1} << 16;

// Returns the cost of giving a worker with the stages `before` the stages
// `after`. The squares make a division even where it can be.
int64_t CostOf(const StageRange& before, const StageRange& after) {
  const int64_t square = int64_t{after.size()} * after.size();
  if (before.empty() || before == after) return square;
  const int kept = std::max(
      0, std::min(before.end, after.end) - std::max(before.begin, after.begin));
  return square + kChangedWorker + kGainedStage * (after.size() - kept);
}

// Removes and returns the element of `*workers` at `position`.
size_t Take(std::vector<size_t>* workers, size_t position) {
  const size_t worker = (*workers)[position];
  workers->erase(workers->begin() + static_cast<std::ptrdiff_t>(position));
  return worker;
}

}  // namespace

std::vector<StageShare> StageAssignment::Place(
    const std::vector<StageShare>& present) const {
  std::vector<StageShare> shares(present.size());
  if (present.empty()) return shares;
  std::map<int, std::vector<size_t>> holders;
  std::vector<size_t> free;
  for (size_t i = 0; i < present.size(); ++i) {
    (present[i].spare() ? free : holders[present[i].replica]).push_back(i);
  }
  std::vector<Replica> replicas;
  for (auto& [number, workers] : holders) {
    replicas.push_back({number, std::move(workers), {}});
  }

  const int workers = static_cast<int>(present.size());
  const int least = std::clamp(workers / stages_, 1, micro_batches_);
  int count = std::clamp(static_cast<int>(replicas.size()), least,
                         std::max(least, micro_batches_));
  while (count > least && 2 * (count * stages_ - workers) > stages_) --count;
  while (static_cast<int>(replicas.size()) > count) {
    // Of the smallest, the last one.
    const auto given_up = std::min_element(
        replicas.rbegin(), replicas.rend(),
        [](const Replica& a, const Replica& b) { return a.size() < b.size(); });
    free.insert(free.end(), given_up->holders.begin(), given_up->holders.end());
    replicas.erase(std::next(given_up).base());
  }
  std::sort(free.begin(), free.end());
  for (int number = 0; static_cast<int>(replicas.size()) < count; ++number) {
    const auto at =
        std::find_if(replicas.begin(), replicas.end(),
                     [number](const Replica& r) { return r.number >= number; });
    if (at != replicas.end() && at->number == number) continue;
    replicas.insert(at, Replica{number, {}, {}});
  }

  FillGaps(present, &replicas, &free);
  AddWorkers(&replicas, &free);
  for (const Replica& replica : replicas) Divide(replica, present, &shares);
  return shares;
}

std::vector<StageRange> StageAssignment::GapsOf(
    const Replica& replica, const std::vector<StageShare>& present) const {
  std::vector<StageRange> gaps;
  if (replica.holders.empty()) return gaps;  // A new replica has no stages yet.
  std::vector<bool> held(stages_, false);
  for (const size_t worker : replica.holders) {
    const StageRange& stages = present[worker].stages;
    std::fill(held.begin() + stages.begin, held.begin() + stages.end, true);
  }
  for (int stage = 0; stage < stages_; ++stage) {
    if (held[stage]) continue;
    if (gaps.empty() || gaps.back().end != stage)
      gaps.push_back({stage, stage});
    gaps.back().end = stage + 1;
  }
  return gaps;
}

void StageAssignment::FillGaps(const std::vector<StageShare>& present,
                               std::vector<Replica>* replicas,
                               std::vector<size_t>* free) const {
  // A worker of a replica that is given up may have exactly these stages.
  for (Replica& replica : *replicas) {
    for (const StageRange& gap : GapsOf(replica, present)) {
      const auto fits = std::find_if(
          free->begin(), free->end(),
          [&](size_t worker) { return present[worker].stages == gap; });
      if (fits == free->end() || replica.size() >= stages_) continue;
      replica.holders.push_back(Take(free, fits - free->begin()));
    }
  }
  for (Replica& replica : *replicas) {
    const size_t gaps = GapsOf(replica, present).size();
    for (size_t i = 0; i < gaps; ++i) {
      if (free->empty() || replica.size() >= stages_) break;
      replica.newcomers.push_back(Take(free, 0));
    }
  }
}

int StageAssignment::Needed(int workers, int available) const {
  const int most = std::min(available, stages_ - workers);
  if (workers == 0) return most;
  for (int more = 1; more <= most; ++more) {
    if (Load(workers + more) < Load(workers)) return more;
  }
  return 0;
}

void StageAssignment::AddWorkers(std::vector<Replica>* replicas,
                                 std::vector<size_t>* free) const {
  while (!free->empty()) {
    Replica* slowest = nullptr;
    for (Replica& replica : *replicas) {
      if (Needed(replica.size(), static_cast<int>(free->size())) == 0) continue;
      if (slowest == nullptr ||
          (slowest->size() > 0 &&
           (replica.size() == 0 ||
            Load(replica.size()) > Load(slowest->size())))) {
        slowest = &replica;
      }
    }
    if (slowest == nullptr) return;
    const int needed = Needed(slowest->size(), static_cast<int>(free->size()));
    for (int i = 0; i < needed; ++i) {
      slowest->newcomers.push_back(Take(free, 0));
    }
  }
}

void StageAssignment::Divide(const Replica& replica,
                             const std::vector<StageShare>& present,
                             std::vector<StageShare>* shares) const {
  std::vector<size_t> holders = replica.holders;
  std::sort(holders.begin(), holders.end(), [&present](size_t a, size_t b) {
    const StageRange& x = present[a].stages;
    const StageRange& y = present[b].stages;
    return std::tie(x.begin, x.end, a) < std::tie(y.begin, y.end, b);
  });
  const size_t old_count = holders.size();
  const size_t new_count = replica.newcomers.size();
  const int most = Load(replica.size());

  // Holders keep their order; newcomers may stand anywhere between them. For
  // every number of holders and of newcomers that have the first stages, and
  // every number of these stages: the least cost, and the last worker's part.
  struct Best {
    int64_t cost = kImpossible;
    int last_stages = 0;
    bool last_is_new = false;
  };
  const auto index = [&](size_t olds, size_t news, int stages) {
    return (olds * (new_count + 1) + news) * (stages_ + 1) + stages;
  };
  std::vector<Best> best(index(old_count, new_count, stages_) + 1);
  best[0].cost = 0;
  for (size_t olds = 0; olds <= old_count; ++olds) {
    for (size_t news = 0; news <= new_count; ++news) {
      for (int begin = 0; begin < stages_; ++begin) {
        const int64_t cost = best[index(olds, news, begin)].cost;
        if (cost == kImpossible) continue;
        for (int end = begin + 1; end <= std::min(begin + most, stages_);
             ++end) {
          const auto offer = [&](size_t to, const StageRange& before,
                                 bool is_new) {
            const int64_t sum = cost + CostOf(before, {begin, end});
            if (sum >= best[to].cost) return;
            best[to] = {sum, end - begin, is_new};
          };
          if (olds < old_count) {
            offer(index(olds + 1, news, end), present[holders[olds]].stages,
                  /*is_new=*/false);
          }
          if (news < new_count) {
            offer(index(olds, news + 1, end), StageRange(), /*is_new=*/true);
          }
        }
      }
    }
  }
  size_t olds = old_count;
  size_t news = new_count;
  for (int end = stages_; end > 0;) {
    const Best& last = best[index(olds, news, end)];
    const size_t worker =
        last.last_is_new ? replica.newcomers[--news] : holders[--olds];
    (*shares)[worker] = {replica.number, {end - last.last_stages, end}};
    end -= last.last_stages;
  }
}

std::vector<size_t> StageAssignment::Complete(
    int replica, const std::vector<StageShare>& shares,
    const std::vector<bool>& usable) const {
  // For each stage, the worker before it in the best cover of the stages below.
  struct Cover {
    int workers = -1;
    size_t last = 0;
  };
  std::vector<Cover> covers(stages_ + 1);
  covers[0].workers = 0;
  for (int end = 1; end <= stages_; ++end) {
    for (size_t i = 0; i < shares.size(); ++i) {
      const StageRange& stages = shares[i].stages;
      if (!usable[i] || shares[i].replica != replica || stages.empty() ||
          stages.end != end || covers[stages.begin].workers < 0) {
        continue;
      }
      const int workers = covers[stages.begin].workers + 1;
      if (workers > covers[end].workers) covers[end] = {workers, i};
    }
  }
  std::vector<size_t> workers;
  if (covers[stages_].workers < 0) return workers;
  for (int end = stages_; end > 0;) {
    workers.push_back(covers[end].last);
    end = shares[covers[end].last].stages.begin;
  }
  std::reverse(workers.begin(), workers.end());
  return workers;
}

WorkerPace StageAssignment::PaceOf(const std::vector<size_t>& workers,
                                   const std::vector<StageShare>& shares,
                                   const std::vector<WorkerPace>& paces) {
  WorkerPace slowest;
  slowest.micro_batch_seconds = 0;
  for (const size_t worker : workers) {
    const WorkerPace& pace = paces[worker];
    slowest.micro_batch_seconds =
        std::max(slowest.micro_batch_seconds, pace.micro_batch_seconds *
                                                  shares[worker].stages.size() /
                                                  std::max(1, pace.threads));
  }
  return slowest;
}

}  // namespace tributary
