#include "tests/deploy/tools/tune/search/simulated_search.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Returns a number in [0, 1) that depends on every bit of `words`.
double Hash(const std::vector<uint64_t>& words) {
  PhiloxBlock state{};
  for (const uint64_t word : words) {
    state = Philox(state, {static_cast<uint32_t>(word),
                           static_cast<uint32_t>(word >> 32)});
  }
  return state[0] * 0x1p-32;
}

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Takes the place of a sampler that learns: its proposals depend on everything
// that they may know.
SearchPoint ProposeFrom(const Study& study, const SearchSpace& space) {
  std::vector<uint64_t> words;
  const std::vector<KnownTrial> known = study.Known();
  for (size_t t = 0; t < known.size(); ++t) {
    words.push_back(static_cast<uint64_t>(known[t].state));
    for (size_t r = 0; r < known[t].results; ++r) {
      words.push_back(BitsOf(study.trials()[t].results[r].values[0]));
    }
  }
  SearchPoint point(space.size());
  for (int i = 0; i < space.size(); ++i) {
    words.push_back(i);
    if (space.IsActive(i, point)) point[i] = space.ValueAt(i, Hash(words));
  }
  return point;
}

class Simulation {
 public:
  Simulation(const SearchSpec& search, const SimulationOptions& options)
      : search_(search),
        options_(options),
        space_(search),
        sampler_(*PointSampler::Create(search, &space_)) {
    Restart();
  }

  SimulationOutcome Run() {
    while (!study_->Done()) {
      Fill();
      if (running_.empty()) {
        ADD_FAILURE() << "nothing runs, but the search is not done";
        break;
      }
      EndOne();
    }
    for (const StudyTrial& trial : study_->trials()) {
      outcome_.points.push_back(trial.point);
      outcome_.parents.push_back(trial.parent);
      outcome_.results.push_back(trial.results);
    }
    outcome_.best = study_->Best();
    outcome_.seconds = now_;
    outcome_.events = journal_.size();
    return outcome_;
  }

 private:
  struct Running {
    Segment segment;
    double began = 0;
  };

  // Forgets everything but the journal.
  void Restart() {
    for (const auto& [end, running] : running_) {
      outcome_.busy_seconds += now_ - running.began;
    }
    running_.clear();
    study_ = std::make_unique<Study>(*MakeStudyPlan(
        search_, options_.steps, /*multiple=*/1, sampler_.count()));
    for (const SimulatedEvent& event : journal_) Apply(event);
  }

  void Apply(const SimulatedEvent& event) {
    if (event.proposed.has_value()) {
      study_->Propose(*event.proposed, /*sampled=*/true, event.parent);
    } else if (event.result.has_value()) {
      study_->Report(event.trial, *event.result);
    } else {
      study_->Fail(event.trial);
    }
  }

  void Record(SimulatedEvent event) {
    journal_.push_back(event);
    if (journal_.size() == options_.kill_after) {
      Restart();
    } else {
      Apply(event);
    }
  }

  // Starts a segment if one may start. Segments that were decided go first.
  bool StartOne() {
    for (const Segment& segment : study_->Startable()) {
      bool runs = false;
      for (const auto& [end, running] : running_) {
        runs |= running.segment.trial == segment.trial;
      }
      if (runs) continue;
      const int64_t steps =
          segment.steps -
          study_->plan().StepsBefore(study_->trials()[segment.trial].bracket,
                                     segment.rung);
      outcome_.steps += steps;
      const double seconds =
          static_cast<double>(steps) * SecondsOfStep(options_, segment.trial);
      running_.insert({now_ + seconds, {segment, now_}});
      return true;
    }
    return false;
  }

  void Fill() {
    while (static_cast<int>(running_.size()) < options_.parallel) {
      if (StartOne()) continue;
      if (!study_->MayPropose()) return;
      SimulatedEvent event;
      event.trial = study_->size();
      if (study_->plan().population > 0 &&
          static_cast<int64_t>(study_->members().size()) >=
              study_->plan().population) {
        const Descendant next = Population(search_, &space_).Next(*study_);
        event.proposed = next.point;
        event.parent = next.parent;
      } else {
        event.proposed = search_.sampler().has_optuna()
                             ? ProposeFrom(*study_, space_)
                             : sampler_.Propose(study_->size());
      }
      Record(std::move(event));
    }
  }

  // Returns what a trial reaches, which also depends on those that it
  // continues.
  TrialResult ResultOf(int64_t number, int64_t steps) const {
    const StudyTrial& trial = study_->trials()[number];
    TrialResult result = SimulatedResult(trial.point, steps);
    if (trial.parent >= 0) {
      const double before = study_->trials()[trial.parent].results[0].values[0];
      result.values[0] = (result.values[0] + before) / 2;
    }
    return result;
  }

  void EndOne() {
    const auto first = running_.begin();
    const double end = first->first;
    const Running ended = first->second;
    running_.erase(first);
    outcome_.busy_seconds += end - ended.began;
    now_ = end;
    SimulatedEvent event;
    event.trial = ended.segment.trial;
    if (options_.fail_every == 0 || event.trial % options_.fail_every != 0) {
      event.result = ResultOf(event.trial, ended.segment.steps);
    }
    Record(std::move(event));
  }

  const SearchSpec search_;
  const SimulationOptions options_;
  const SearchSpace space_;
  const PointSampler sampler_;
  std::unique_ptr<Study> study_;
  std::vector<SimulatedEvent> journal_;
  std::multimap<double, Running> running_;  // By time of its end.
  double now_ = 0;
  SimulationOutcome outcome_;
};

}  // namespace

SearchSpec SearchWith(const std::string& lines) {
  const SearchSpec search = *ParseSearch(absl::StrCat(R"(
        parameter { path: "x" number { low: 0 high: 1 } }
        parameter { path: "y" number { low: 0.001 high: 10 log: true } }
        objective { metric: "evaluation.loss" goal: MINIMIZE }
      )",
                                                      lines),
                                         "search");
  EXPECT_EQ(ValidateSearch(search), absl::OkStatus());
  return search;
}

double SecondsOfStep(const SimulationOptions& options, int64_t trial) {
  std::mt19937_64 random(options.speed_seed * 1000003 + trial);
  return std::exp(options.sigma * std::normal_distribution<>()(random));
}

TrialResult SimulatedResult(const SearchPoint& point, int64_t steps) {
  std::vector<uint64_t> words = {static_cast<uint64_t>(steps)};
  double quality = 0;
  for (const absl::optional<double>& value : point) {
    words.push_back(BitsOf(value.value_or(-1)));
    quality += std::abs(value.value_or(0) - 0.3);
  }
  // A curve that falls with the steps, with noise that becomes smaller.
  const double rest = 1 / std::sqrt(static_cast<double>(steps));
  TrialResult result;
  result.values = {quality + rest + 0.2 * rest * Hash(words)};
  return result;
}

SimulationOutcome Simulate(const SearchSpec& search,
                           const SimulationOptions& options) {
  return Simulation(search, options).Run();
}

}  // namespace tributary
