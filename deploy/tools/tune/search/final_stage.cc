#include "deploy/tools/tune/search/final_stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tributary {
namespace {

// Sets the mean and the deviation of the results.
void Summarize(FinalCandidate* candidate) {
  std::vector<const TrialResult*> results;
  for (const absl::optional<TrialResult>& result : candidate->results) {
    if (result.has_value()) results.push_back(&*result);
  }
  if (results.empty()) return;
  const double count = static_cast<double>(results.size());
  candidate->mean = *results[0];
  for (size_t r = 1; r < results.size(); ++r) {
    for (size_t i = 0; i < candidate->mean.values.size(); ++i) {
      candidate->mean.values[i] += results[r]->values[i];
    }
    for (size_t i = 0; i < candidate->mean.violations.size(); ++i) {
      candidate->mean.violations[i] += results[r]->violations[i];
    }
  }
  for (double& value : candidate->mean.values) value /= count;
  for (double& violation : candidate->mean.violations) violation /= count;
  if (results.size() < 2) return;
  double squares = 0;
  for (const TrialResult* result : results) {
    const double distance = result->values[0] - candidate->mean.values[0];
    squares += distance * distance;
  }
  candidate->deviation = std::sqrt(squares / (count - 1));
}

}  // namespace

std::vector<int64_t> BestTrials(const Study& study, int64_t count) {
  const std::vector<StudyTrial>& trials = study.trials();
  std::vector<int64_t> best;
  for (int64_t t = 0; t < study.size(); ++t) {
    if (trials[t].state == StudyTrial::State::kComplete &&
        !trials[t].point.empty()) {
      best.push_back(t);
    }
  }
  std::stable_sort(best.begin(), best.end(), [&](int64_t a, int64_t b) {
    return IsBetter(trials[a].results.back(), trials[b].results.back(),
                    study.plan().maximize);
  });
  if (static_cast<int64_t>(best.size()) > count) best.resize(count);
  return best;
}

void FinalStage::Begin(
    const std::vector<int64_t>& trials,
    const std::vector<absl::optional<TrialResult>>& results) {
  if (begun_) return;
  begun_ = true;
  trials_ = trials;
  for (size_t i = 0; i < trials.size(); ++i) {
    std::vector<Run>& runs = runs_[trials[i]];
    runs.resize(settings_.seeds());
    if (results[i].has_value()) runs[0] = {true, results[i]};
  }
}

std::vector<Segment> FinalStage::Startable() const {
  std::vector<Segment> startable;
  for (const int64_t trial : trials_) {
    for (int64_t seed = 0; seed < settings_.seeds(); ++seed) {
      if (Awaits(trial, seed)) startable.push_back({trial, 0, steps_, seed});
    }
  }
  return startable;
}

bool FinalStage::Awaits(int64_t trial, int64_t seed) const {
  const auto found = runs_.find(trial);
  return found != runs_.end() && seed >= 0 && seed < settings_.seeds() &&
         !found->second[seed].ended;
}

void FinalStage::Report(int64_t trial, int64_t seed,
                        absl::optional<TrialResult> result) {
  if (Awaits(trial, seed)) runs_[trial][seed] = {true, std::move(result)};
}

int64_t FinalStage::StepsLeft() const {
  // The search itself computes the first seed.
  const int64_t runs = begun_ ? static_cast<int64_t>(Startable().size())
                              : settings_.best() * (settings_.seeds() - 1);
  return runs * steps_;
}

std::vector<FinalCandidate> FinalStage::Ranking() const {
  std::vector<FinalCandidate> ranking;
  for (const int64_t trial : trials_) {
    FinalCandidate candidate;
    candidate.trial = trial;
    for (const Run& run : runs_.at(trial)) {
      candidate.results.push_back(run.result);
      candidate.ended += run.ended ? 1 : 0;
      candidate.failed += run.ended && !run.result.has_value() ? 1 : 0;
    }
    Summarize(&candidate);
    ranking.push_back(std::move(candidate));
  }
  std::stable_sort(ranking.begin(), ranking.end(),
                   [this](const FinalCandidate& a, const FinalCandidate& b) {
                     if (a.failed != b.failed) return a.failed < b.failed;
                     if (a.mean.values.empty() || b.mean.values.empty()) {
                       return a.mean.values.size() > b.mean.values.size();
                     }
                     return IsBetter(a.mean, b.mean, maximize_);
                   });
  return ranking;
}

}  // namespace tributary
