#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/rung_ladder.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "deploy/tools/tune/search/trial_result.h"

namespace tributary {

// The part of a trial between two rungs: the unit of work.
struct Segment {
  int64_t trial = 0;
  int rung = 0;
  int64_t steps = 0;  // Number of steps of the trial at the segment's end.
  // Of a run of the final evaluation: what is added to the seed of the trial's
  // job. -1: a segment of the search.
  int64_t final_seed = -1;

  bool is_final() const { return final_seed >= 0; }
};

struct StudyTrial {
  enum class State {
    kActive,    // Has a segment that may start, or has started.
    kPaused,    // Waits at a rung, or was stopped there.
    kComplete,  // Has been trained to the end.
    kFailed,
    kForeign,  // Another program has added and runs it.
  };
  State state = State::kActive;
  bool foreign = false;  // True if another program has added the trial.
  // Empty if the trial has parameters that the search does not have.
  SearchPoint point;
  int bracket = 0;
  // Population-based training: the trial from whose checkpoint it continues; -1
  // if it is of the first generation.
  int64_t parent = -1;
  std::vector<TrialResult> results;  // By rung.
  // By rung: number of the first trial that may be chosen with this result.
  std::vector<int64_t> known_from;
};

// What may be known of a trial when a new one is chosen.
struct KnownTrial {
  enum class State { kRunning, kStopped, kComplete, kFailed };
  State state = State::kRunning;
  size_t results = 0;  // Number of StudyTrial::results that may be known.
};

// The state of a search. It changes only by the methods Propose, AddForeign,
// Report, Fail and Close, so a study that these calls are repeated on has the
// same state. All its decisions obey the information rule: trial n is chosen,
// and a trial is promoted or stopped, only with results that are known before
// it in an order which the search file fixes; a generation of a population is
// chosen when all results of the generation before it are known. The proposals,
// the decisions and the best trial therefore do not depend on how many segments
// run at the same time, on their speeds, or on the order in which their results
// arrive.
//
// With lookahead L, trial n may use the results of trials up to n - L. With
// rungs, the result of a promoted trial at a rung may be used L * x trials
// after the result that decided the promotion, where x is the segment's length
// in first rungs. Not thread-safe.
class Study {
 public:
  explicit Study(StudyPlan plan);

  const StudyPlan& plan() const { return plan_; }
  const std::vector<StudyTrial>& trials() const { return trials_; }
  int64_t size() const { return static_cast<int64_t>(trials_.size()); }

  // Returns true if trial number size() may be proposed.
  bool MayPropose() const;
  // Returns what may be known of each trial when trial number size() is chosen.
  // MayPropose() must be true.
  std::vector<KnownTrial> Known() const;
  // Adds trial number size(). Its first segment may start. `sampled` is false
  // if a user has chosen the point. `parent` is as in StudyTrial. The study
  // must not be closed.
  void Propose(SearchPoint point, bool sampled = true, int64_t parent = -1);
  // Adds trial number size(), which another program has proposed and runs.
  void AddForeign();
  // Records that a trial of another program has ended with this result; nullopt
  // if it has none. `point` is empty if it has other parameters than the
  // search; it then has no result. A proposal may use it from trial number
  // size() on.
  void EndForeign(int64_t trial, SearchPoint point,
                  absl::optional<TrialResult> result);

  // Returns the segments that may start, the most important one first. They
  // remain in the list until their results are reported.
  std::vector<Segment> Startable() const;
  // Returns the rung that the trial is trained to next; -1 if it has no
  // segment.
  int NextRung(int64_t trial) const;
  // Records the result of the trial at the end of its segment, or that it has
  // failed. The trial must have a segment.
  void Report(int64_t trial, TrialResult result);
  void Fail(int64_t trial);
  // Proposes no more trials.
  void Close();

  // Population-based training: the trials that belong to the population, by
  // generation and then by member. Other programs may have added trials in
  // between.
  const std::vector<int64_t>& members() const { return members_; }

  // True if no more trial can be proposed.
  bool closed() const { return closed_; }
  // Number of points that the sampler has chosen.
  int64_t sampled() const { return sampled_; }
  // True if nothing is left to do.
  bool Done() const { return closed_ && startable_.empty(); }
  // Returns the best complete trials that satisfy the constraints or, if there
  // are none, that violate them least: with one objective, the first of the
  // best ones; with several, the Pareto front in the order of trials.
  std::vector<int64_t> Best() const;

 private:
  const std::vector<int64_t>& RungsOf(const StudyTrial& trial) const {
    return plan_.brackets[trial.bracket].rungs;
  }
  // Makes a segment of the trial to `rung` startable, whose result may be known
  // from trial `known_from` on.
  void AddSegment(int64_t trial, int rung, int64_t known_from);
  void RemoveSegment(int64_t trial);
  void TakePromotions(int bracket);
  // Median stopping: returns true if the trial, which has just reached a rung,
  // is to be stopped there.
  bool IsBelowMedian(int64_t trial, int rung) const;
  // Returns an upper bound of the steps of all trials, with one more trial.
  int64_t StepsBound() const;
  // Closes the study if a limit is reached.
  void CheckLimits();

  const StudyPlan plan_;
  std::vector<StudyTrial> trials_;
  std::vector<RungLadder> ladders_;  // kHalving: by bracket.
  // The segments that may start, as (-rung, trial).
  std::set<std::pair<int, int64_t>> startable_;
  // The segments whose results later proposals need, as (known from, trial).
  std::set<std::pair<int64_t, int64_t>> awaited_;
  std::map<int64_t, int> segments_;  // Rung of each trial's segment.
  std::vector<int64_t> members_;     // Of the population, in order.
  int64_t sampled_ = 0;
  bool closed_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_STUDY_H_
