// What a search means for a job of a given length: rungs, brackets and limits.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_PLAN_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "proto/search.pb.h"

namespace tributary {

// The trials that begin with the same rung.
struct Bracket {
  // Number of steps after which trials are compared, ascending. The last one is
  // the length of a whole trial.
  std::vector<int64_t> rungs;
  int64_t trials = 1;  // Number of trials of a cycle through all brackets.
};

struct StudyPlan {
  enum class Scheduler { kNone, kHalving, kMedian, kPopulation };
  Scheduler scheduler = Scheduler::kNone;
  // Trials are dealt to the brackets in this order, again and again.
  // kPopulation: by generation; each of them has one rung, its last step.
  std::vector<Bracket> brackets;
  int64_t eta = 3;             // kHalving.
  int64_t startup_trials = 0;  // kMedian.
  int64_t population = 0;      // kPopulation: trials of a generation.
  int64_t replaced = 0;        // kPopulation: of them after each generation.
  // True if proposals or decisions use the results of earlier trials, which
  // must then be known.
  bool informed = false;
  int64_t lookahead = 1;
  // Limits; nullopt if there is none. With kMedian, most_steps limits the steps
  // of all trials; otherwise it is part of most_trials.
  absl::optional<int64_t> most_trials;
  absl::optional<int64_t> most_points;  // Chosen by the sampler.
  absl::optional<int64_t> most_steps;
  std::vector<bool> maximize;  // By objective.

  // Returns the bracket of a trial. kPopulation: `trial` counts only those of
  // the population.
  int BracketOf(int64_t trial) const;
  // Returns true if a trial of the bracket is complete at the rung.
  bool IsWhole(int bracket, int rung) const;
  // Returns the number of steps that a trial of the bracket has before it is
  // trained to the rung.
  int64_t StepsBefore(int bracket, int rung) const;
  // Returns the number of steps of all rungs if `trials` trials are proposed
  // and none of them fails or is stopped.
  int64_t StepsOf(int64_t trials) const;
};

// Returns the plan of a valid search whose job has `steps` steps. All rungs are
// multiples of `multiple`, except `steps`. `most_points` is the number of
// points that the sampler has, if it is limited. Returns InvalidArgument,
// naming the field, if the job is too short for the rungs, or the budget for
// one trial.
absl::StatusOr<StudyPlan> MakeStudyPlan(const SearchSpec& search, int64_t steps,
                                        int64_t multiple,
                                        absl::optional<int64_t> most_points);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_PLAN_H_
