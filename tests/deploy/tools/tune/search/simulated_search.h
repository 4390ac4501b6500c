// Searches whose trials are simulated: their results are functions of their
// values, and their times are random.
#ifndef TRIBUTARY_TESTS_DEPLOY_TOOLS_TUNE_SEARCH_SIMULATED_SEARCH_H_
#define TRIBUTARY_TESTS_DEPLOY_TOOLS_TUNE_SEARCH_SIMULATED_SEARCH_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/point_sampler.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/study.h"
#include "proto/search.pb.h"

namespace tributary {

// Returns the search with two numbers, one objective and these lines.
SearchSpec SearchWith(const std::string& lines);

struct SimulationOptions {
  int64_t steps = 27;  // Of a whole trial.
  int parallel = 1;
  // The speed of a trial is exp(sigma * x), where x is normal.
  double sigma = 0.5;
  uint64_t speed_seed = 1;
  // Every trial whose number is a multiple of this one fails. 0: none.
  int64_t fail_every = 0;
  // The search is killed after this many events, and goes on from its journal.
  absl::optional<size_t> kill_after;
};

// A line of the journal of a simulated search.
struct SimulatedEvent {
  int64_t trial = 0;
  absl::optional<SearchPoint> proposed;
  int64_t parent = -1;                 // Of a proposed trial.
  absl::optional<TrialResult> result;  // Neither: the trial has failed.
};

struct SimulationOutcome {
  std::vector<SearchPoint> points;
  std::vector<int64_t> parents;                   // Of each trial.
  std::vector<std::vector<TrialResult>> results;  // Of each trial, by rung.
  std::vector<int64_t> best;
  int64_t steps = 0;  // Computed, including those of killed segments.
  double seconds = 0;
  double busy_seconds = 0;  // Of all slots.
  size_t events = 0;

  double idle(int parallel) const {
    return 1 - busy_seconds / (seconds * parallel);
  }
};

// Returns the time of a step of the trial.
double SecondsOfStep(const SimulationOptions& options, int64_t trial);
// Returns what a trial with these values reaches after so many steps.
TrialResult SimulatedResult(const SearchPoint& point, int64_t steps);

// Runs the search to its end. If it uses a sampler of Optuna, a function of
// everything that a proposal may know takes its place. Checks that never more
// than `parallel` segments run.
SimulationOutcome Simulate(const SearchSpec& search,
                           const SimulationOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_DEPLOY_TOOLS_TUNE_SEARCH_SIMULATED_SEARCH_H_
