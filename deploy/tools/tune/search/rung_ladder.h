#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_RUNG_LADDER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_RUNG_LADDER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/trial_result.h"

namespace tributary {

// A trial that may continue from rung - 1 to `rung`.
struct Promotion {
  int64_t trial = 0;
  int rung = 0;
  // The trial whose result at rung - 1 completed the information for this
  // decision; -1 if the end of the search did.
  int64_t decided_by = -1;
};

// Successive halving of one bracket. Trials enter rung 0 in the order of their
// numbers. The decisions at a rung are made in the order in which trials have
// entered it: the decision about the first k trials uses the results of these k
// trials only. When k reaches a multiple of eta, the best of the k trials that
// has not been promoted yet is promoted. When no more trials can enter a rung,
// at least one of its trials is promoted. A failed trial counts as one of the
// k, but is not promoted.
//
// The promotions, and their order at each rung, therefore depend only on the
// results, not on the order in which results arrive. Trials wait for slower
// trials that have entered before them, but not for those that enter later.
// Not thread-safe.
class RungLadder {
 public:
  // `maximize` is as for IsBetter. `eta` is at least 2, `rungs` at least 1.
  RungLadder(int rungs, int64_t eta, std::vector<bool> maximize);

  // Adds a trial to rung 0.
  void Enter(int64_t trial);
  // Records the result of a trial at a rung that it has entered; nullopt if it
  // has failed. Call once for each rung of a trial.
  void Resolve(int64_t trial, int rung, absl::optional<TrialResult> result);
  // No more trials will enter rung 0.
  void Close();

  // Returns the promotions that were decided since the last call. Each of these
  // trials has entered its rung.
  std::vector<Promotion> TakePromotions();

 private:
  struct Entry {
    int64_t trial = 0;
    bool resolved = false;
    bool promoted = false;
    absl::optional<TrialResult> result;
  };
  struct Rung {
    std::vector<Entry> entries;
    std::map<int64_t, size_t> position;  // Of each trial in `entries`.
    size_t decided = 0;  // Number of first entries that are all resolved.
    int64_t promoted = 0;
    bool closed = false;
  };

  void EnterRung(int64_t trial, int rung);
  // Makes the decisions that the results allow, at this rung and above.
  void Decide(int rung);
  // Promotes the best of the decided trials until `quota` trials have been.
  void PromoteUpTo(int64_t quota, int64_t decided_by, int rung);

  const int64_t eta_;
  const std::vector<bool> maximize_;
  std::vector<Rung> rungs_;
  std::vector<Promotion> taken_later_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_RUNG_LADDER_H_
