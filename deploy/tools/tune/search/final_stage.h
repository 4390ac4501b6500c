#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_FINAL_STAGE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_FINAL_STAGE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/study.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "proto/search.pb.h"

namespace tributary {

// What the final evaluation has found about one of the best trials.
struct FinalCandidate {
  int64_t trial = 0;
  // By seed: the result; nullopt if the run has failed, or was not reported.
  std::vector<absl::optional<TrialResult>> results;
  int64_t failed = 0;  // Number of failed runs.
  int64_t ended = 0;   // Number of runs that have ended, with the failed ones.
  // Over the results: their mean, and the standard deviation of the objective
  // as estimated from a sample; 0 with less than two results.
  TrialResult mean;
  double deviation = 0;
};

// Returns the best `count` complete trials of a study with one objective, or as
// many as there are, the best first.
std::vector<int64_t> BestTrials(const Study& study, int64_t count);

// The final evaluation of a search with one objective: each of the best trials
// is trained with several seeds, and the best mean wins. A trial for which a
// seed has failed ranks behind those with fewer failures. Which trials take
// part is decided once, when the search is done, so the winner depends only on
// the results. Not thread-safe.
class FinalStage {
 public:
  // `steps` is the length of a whole trial.
  FinalStage(const FinalSpec& settings, bool maximize, int64_t steps)
      : settings_(settings), maximize_{maximize}, steps_(steps) {}

  // Begins with these trials, the best first, and their results of the first
  // seed; nullopt if another program has computed it. Has no effect if the
  // stage has begun.
  void Begin(const std::vector<int64_t>& trials,
             const std::vector<absl::optional<TrialResult>>& results);
  bool begun() const { return begun_; }
  int64_t best() const { return settings_.best(); }

  // Returns the runs that were not reported, in the order in which they should
  // start. They remain in the list until they are reported.
  std::vector<Segment> Startable() const;
  // Returns true if Startable contains this run.
  bool Awaits(int64_t trial, int64_t seed) const;
  // Records the result of a run; nullopt: it has failed. Has no effect if the
  // run is not awaited.
  void Report(int64_t trial, int64_t seed, absl::optional<TrialResult> result);
  bool Done() const { return begun_ && Startable().empty(); }
  // Returns the number of steps of the runs that have not ended.
  int64_t StepsLeft() const;

  // Returns the trials, the best first. The first is the winner if Done().
  std::vector<FinalCandidate> Ranking() const;

 private:
  struct Run {
    bool ended = false;
    absl::optional<TrialResult> result;
  };

  const FinalSpec settings_;
  const std::vector<bool> maximize_;
  const int64_t steps_;
  bool begun_ = false;
  std::vector<int64_t> trials_;
  std::map<int64_t, std::vector<Run>> runs_;  // By trial, then by seed.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_FINAL_STAGE_H_
