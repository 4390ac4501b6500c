#include "deploy/tools/tune/search/study.h"

#include <algorithm>

namespace tributary {

Study::Study(StudyPlan plan) : plan_(std::move(plan)) {
  if (plan_.scheduler == StudyPlan::Scheduler::kHalving) {
    for (const Bracket& bracket : plan_.brackets) {
      ladders_.emplace_back(static_cast<int>(bracket.rungs.size()), plan_.eta,
                            plan_.maximize);
    }
  }
  CheckLimits();
}

bool Study::MayPropose() const {
  if (closed_) return false;
  // The members of a generation are chosen when the one before it has ended.
  if (plan_.population > 0) {
    return members_.size() % plan_.population != 0 || startable_.empty();
  }
  if (!plan_.informed) return true;
  return awaited_.empty() || awaited_.begin()->first > size();
}

std::vector<KnownTrial> Study::Known() const {
  std::vector<KnownTrial> known(trials_.size());
  for (size_t t = 0; t < trials_.size(); ++t) {
    const StudyTrial& trial = trials_[t];
    const auto visible = std::upper_bound(trial.known_from.begin(),
                                          trial.known_from.end(), size());
    const size_t rungs = visible - trial.known_from.begin();
    const bool failed = trial.state == StudyTrial::State::kFailed;
    known[t].results = std::min(rungs, trial.results.size());
    if (failed && rungs > trial.results.size()) {
      known[t].state = KnownTrial::State::kFailed;
    } else if (known[t].results == 0) {
      known[t].state = KnownTrial::State::kRunning;
    } else if (trial.state == StudyTrial::State::kComplete &&
               known[t].results == trial.results.size()) {
      known[t].state = KnownTrial::State::kComplete;
    } else {
      known[t].state = KnownTrial::State::kStopped;
    }
  }
  return known;
}

void Study::AddSegment(int64_t trial, int rung, int64_t known_from) {
  trials_[trial].state = StudyTrial::State::kActive;
  trials_[trial].known_from.push_back(known_from);
  segments_[trial] = rung;
  startable_.insert({-rung, trial});
  awaited_.insert({known_from, trial});
}

void Study::RemoveSegment(int64_t trial) {
  const auto segment = segments_.find(trial);
  startable_.erase({-segment->second, trial});
  awaited_.erase({trials_[trial].known_from.back(), trial});
  segments_.erase(segment);
}

void Study::Propose(SearchPoint point, bool sampled, int64_t parent) {
  const int64_t number = size();
  StudyTrial trial;
  trial.point = std::move(point);
  trial.parent = parent;
  const bool is_member = plan_.population > 0;
  trial.bracket = plan_.BracketOf(
      is_member ? static_cast<int64_t>(members_.size()) : number);
  if (is_member) members_.push_back(number);
  trials_.push_back(std::move(trial));
  if (sampled) ++sampled_;
  if (!ladders_.empty()) ladders_[trials_[number].bracket].Enter(number);
  AddSegment(number, /*rung=*/0, number + plan_.lookahead);
  CheckLimits();
}

void Study::AddForeign() {
  StudyTrial trial;
  trial.foreign = true;
  trial.state = StudyTrial::State::kForeign;
  trials_.push_back(std::move(trial));
  CheckLimits();
}

void Study::EndForeign(int64_t trial, SearchPoint point,
                       absl::optional<TrialResult> result) {
  StudyTrial& ended = trials_[trial];
  ended.point = std::move(point);
  ended.known_from.push_back(size());
  ended.state = result.has_value() ? StudyTrial::State::kComplete
                                   : StudyTrial::State::kFailed;
  if (result.has_value()) ended.results.push_back(*std::move(result));
}

std::vector<Segment> Study::Startable() const {
  std::vector<Segment> segments;
  for (const auto& [negative_rung, trial] : startable_) {
    segments.push_back(
        {trial, -negative_rung, RungsOf(trials_[trial])[-negative_rung]});
  }
  return segments;
}

int Study::NextRung(int64_t trial) const {
  const auto segment = segments_.find(trial);
  return segment == segments_.end() ? -1 : segment->second;
}

void Study::Report(int64_t number, TrialResult result) {
  const int rung = segments_.at(number);
  RemoveSegment(number);
  StudyTrial& trial = trials_[number];
  trial.results.push_back(result);
  const bool at_end = rung + 1 == static_cast<int>(RungsOf(trial).size());
  trial.state = plan_.IsWhole(trial.bracket, rung)
                    ? StudyTrial::State::kComplete
                    : StudyTrial::State::kPaused;
  if (!ladders_.empty()) {
    ladders_[trial.bracket].Resolve(number, rung, std::move(result));
    TakePromotions(trial.bracket);
  } else if (!at_end && !IsBelowMedian(number, rung)) {
    AddSegment(number, rung + 1, number + plan_.lookahead);
  }
  CheckLimits();
}

void Study::Fail(int64_t number) {
  const int rung = segments_.at(number);
  RemoveSegment(number);
  trials_[number].state = StudyTrial::State::kFailed;
  if (!ladders_.empty()) {
    const int bracket = trials_[number].bracket;
    ladders_[bracket].Resolve(number, rung, absl::nullopt);
    TakePromotions(bracket);
  }
  CheckLimits();
}

void Study::TakePromotions(int bracket) {
  const std::vector<int64_t>& rungs = plan_.brackets[bracket].rungs;
  for (const Promotion& promotion : ladders_[bracket].TakePromotions()) {
    const int64_t first = rungs[0];
    const int64_t length = rungs[promotion.rung] - rungs[promotion.rung - 1];
    // After the end of the search, nothing is proposed any more.
    const int64_t decided =
        promotion.decided_by < 0
            ? INT64_MAX / 2
            : trials_[promotion.decided_by].known_from[promotion.rung - 1];
    AddSegment(promotion.trial, promotion.rung,
               decided + plan_.lookahead * ((length + first - 1) / first));
  }
}

bool Study::IsBelowMedian(int64_t number, int rung) const {
  if (plan_.scheduler != StudyPlan::Scheduler::kMedian) return false;
  int64_t ended = 0;
  std::vector<const TrialResult*> others;
  for (int64_t t = 0; t + plan_.lookahead <= number; ++t) {
    const StudyTrial& other = trials_[t];
    if (other.foreign) continue;
    ++ended;
    if (static_cast<int>(other.results.size()) > rung) {
      others.push_back(&other.results[rung]);
    }
  }
  if (ended < plan_.startup_trials || others.empty()) return false;
  // Worse than the median: more than half of the others are better.
  const TrialResult& result = trials_[number].results[rung];
  const int64_t better = std::count_if(
      others.begin(), others.end(), [&](const TrialResult* other) {
        return IsBetter(*other, result, plan_.maximize);
      });
  return better * 2 > static_cast<int64_t>(others.size());
}

int64_t Study::StepsBound() const {
  int64_t steps = 0;
  for (int64_t t = 0; t < size(); ++t) {
    const StudyTrial& trial = trials_[t];
    if (trial.foreign) continue;
    const std::vector<int64_t>& rungs = RungsOf(trial);
    // The trials that are still running, or may be, count as whole ones.
    if (t + plan_.lookahead > size()) {
      steps += rungs.back();
    } else if (!trial.results.empty()) {
      steps += rungs[trial.results.size() - 1];
    }
  }
  return steps + plan_.brackets[0].rungs.back();
}

void Study::CheckLimits() {
  if (closed_) return;
  const int64_t members = static_cast<int64_t>(members_.size());
  if (members > 0 && members % plan_.population == 0 && startable_.empty() &&
      std::all_of(members_.end() - plan_.population, members_.end(),
                  [this](int64_t t) { return trials_[t].results.empty(); })) {
    // Nothing is left that could be continued.
    Close();
    return;
  }
  const bool trials_used =
      plan_.most_trials.has_value() &&
      (plan_.population > 0 ? members : size()) >= *plan_.most_trials;
  const bool points_used =
      plan_.most_points.has_value() && sampled_ >= *plan_.most_points;
  const bool steps_used = plan_.most_steps.has_value() && MayPropose() &&
                          StepsBound() > *plan_.most_steps;
  if (trials_used || points_used || steps_used) Close();
}

void Study::Close() {
  if (closed_) return;
  closed_ = true;
  for (size_t b = 0; b < ladders_.size(); ++b) {
    ladders_[b].Close();
    TakePromotions(static_cast<int>(b));
  }
}

std::vector<int64_t> Study::Best() const {
  std::vector<int64_t> best;
  for (int64_t t = 0; t < size(); ++t) {
    if (trials_[t].state != StudyTrial::State::kComplete ||
        trials_[t].point.empty()) {
      continue;
    }
    const TrialResult& result = trials_[t].results.back();
    const bool beaten =
        std::any_of(best.begin(), best.end(), [&](int64_t other) {
          const TrialResult& its = trials_[other].results.back();
          return IsBetter(its, result, plan_.maximize) ||
                 (plan_.maximize.size() == 1 &&
                  !IsBetter(result, its, plan_.maximize));
        });
    if (beaten) continue;
    best.erase(std::remove_if(best.begin(), best.end(),
                              [&](int64_t other) {
                                return IsBetter(result,
                                                trials_[other].results.back(),
                                                plan_.maximize);
                              }),
               best.end());
    best.push_back(t);
  }
  return best;
}

}  // namespace tributary
