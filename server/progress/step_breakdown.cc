#include "server/progress/step_breakdown.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tributary {
namespace {

// Returns the middle value, or the mean of the two middle values if the count
// is even.
double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

// Returns a worker's mean step between two heartbeats.
WorkerStep MeanOf(const ProcessStatistics& from, const ProcessStatistics& to) {
  const auto steps = static_cast<double>(to.steps() - from.steps());
  WorkerStep mean;
  mean.micro_batches = static_cast<double>(to.leaves() - from.leaves()) / steps;
  mean.forward_seconds =
      (to.forward_seconds() - from.forward_seconds()) / steps;
  mean.backward_seconds =
      (to.backward_seconds() - from.backward_seconds()) / steps;
  mean.data_seconds = (to.data_seconds() - from.data_seconds()) / steps;
  mean.exchange_seconds =
      (to.exchange_seconds() - from.exchange_seconds()) / steps;
  return mean;
}

}  // namespace

StepBreakdown::StepBreakdown(int servers) : servers_(servers) {}

void StepBreakdown::Introduce(int64_t incarnation, int rank) {
  workers_[incarnation].rank = rank;
}

void StepBreakdown::RemoveWorker(int64_t incarnation) {
  workers_.erase(incarnation);
}

void StepBreakdown::AddCounters(int64_t incarnation,
                                const ProcessStatistics& counters) {
  const auto found = workers_.find(incarnation);
  if (found != workers_.end()) found->second.newest = counters;
}

void StepBreakdown::AddArrivals(const StepSums& sums) {
  const int count =
      std::min(sums.contributor_size(), sums.contributor_seconds_size());
  if (count < 2) return;
  int last = 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(sums.contributor_seconds(i))) return;
    if (sums.contributor_seconds(i) > sums.contributor_seconds(last)) last = i;
  }
  const double end = sums.contributor_seconds(last);
  std::vector<double> others;
  for (int i = 0; i < count; ++i) {
    if (i == last) continue;
    const double waiting = end - sums.contributor_seconds(i);
    others.push_back(waiting);
    const auto found = workers_.find(sums.contributor(i));
    if (found == workers_.end()) continue;
    // All servers wait at the same time, so the waits are averaged over them.
    found->second.waiting_seconds += waiting / servers_;
    found->second.window.waiting_seconds += waiting / servers_;
    totals_[found->second.rank].waiting_seconds += waiting / servers_;
  }
  const auto found = workers_.find(sums.contributor(last));
  if (found == workers_.end()) return;
  const double late = Median(std::move(others)) / servers_;
  found->second.window.waited_for_seconds += late;
  totals_[found->second.rank].waited_for_seconds += late;
}

double StepBreakdown::waiting_seconds(int64_t incarnation) const {
  const auto found = workers_.find(incarnation);
  return found == workers_.end() ? 0 : found->second.waiting_seconds;
}

void StepBreakdown::EndWindow(int64_t steps) {
  CloseMeans(steps);
  FindStraggler(steps);
  for (auto& [incarnation, worker] : workers_) worker.window = Total();
}

void StepBreakdown::CloseMeans(int64_t steps) {
  means_.clear();
  for (auto& [incarnation, worker] : workers_) {
    if (worker.newest.steps() > worker.base.steps()) {
      worker.mean = MeanOf(worker.base, worker.newest);
      worker.base = worker.newest;
      worker.counted = true;
    }
    worker.mean.rank = worker.rank;
    worker.mean.waiting_seconds =
        worker.window.waiting_seconds / static_cast<double>(steps);
    if (worker.counted) means_.push_back(worker.mean);
  }
  std::sort(
      means_.begin(), means_.end(),
      [](const WorkerStep& a, const WorkerStep& b) { return a.rank < b.rank; });
}

void StepBreakdown::FindStraggler(int64_t steps) {
  straggler_.reset();
  for (const auto& [incarnation, worker] : workers_) {
    const double late =
        worker.window.waited_for_seconds / static_cast<double>(steps);
    if (late <= (straggler_.has_value() ? straggler_->seconds : 0)) continue;
    straggler_ = Straggler{worker.rank, late, ""};
  }
  if (straggler_.has_value()) {
    straggler_->phase = PhaseOf(straggler_->rank, straggler_->seconds);
  }
}

std::string StepBreakdown::PhaseOf(int rank, double late_seconds) const {
  constexpr std::pair<const char*, double WorkerStep::*> kPhases[] = {
      {"data", &WorkerStep::data_seconds},
      {"forward", &WorkerStep::forward_seconds},
      {"backward", &WorkerStep::backward_seconds}};
  const auto own = std::find_if(
      means_.begin(), means_.end(),
      [rank](const WorkerStep& mean) { return mean.rank == rank; });
  if (own == means_.end()) return "";
  const char* longest = "";
  double most = -std::numeric_limits<double>::infinity();
  double explained = 0;
  for (const auto& [name, seconds] : kPhases) {
    std::vector<double> others;
    for (const WorkerStep& worker : means_) {
      if (worker.rank != rank) others.push_back(worker.*seconds);
    }
    const double excess = (*own).*seconds - Median(std::move(others));
    explained += std::max(0.0, excess);
    if (excess > most) {
      most = excess;
      longest = name;
    }
  }
  // If workers are late in turn, their means differ by less than late_seconds.
  const double late_on_balance = late_seconds - own->waiting_seconds;
  return explained >= late_on_balance / 2 ? longest : "exchange";
}

}  // namespace tributary
