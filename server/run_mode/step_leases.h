// Leases of steps to workers in asynchronous mode.
#ifndef TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_
#define TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tributary {

// Leases every step to one worker at a time until the step is complete. A lease
// is the right to compute the step. The steps that a worker leaves incomplete
// are leased to other workers before new steps. A chunk that has already
// applied such a step ignores the second contribution. A pure state machine;
// not thread-safe.
class StepLeases {
 public:
  // Steps [first, limit) may be leased.
  explicit StepLeases(int64_t limit, int64_t first = 0)
      : limit_(limit), next_(first) {}

  // Sets the first step that must not be leased. Existing leases are
  // unaffected.
  void SetLimit(int64_t limit) { limit_ = limit; }
  // Adds a worker's request for one more step. Returns false and ignores the
  // request if the worker has more open requests than any worker can use.
  bool Request(int64_t worker);
  // Ends the lease of the step, which has been applied to all chunks.
  void Complete(int64_t step);
  // Ends the leases and requests of a worker that has left.
  void Remove(int64_t worker);

  // Returns the worker that has the oldest lease, or 0 if there is none.
  int64_t OldestHolder() const {
    return leased_.empty() ? 0 : leased_.begin()->second;
  }
  // Returns the first step that has never been leased.
  int64_t next() const { return next_; }

  // Grants leases to workers with open requests, and returns them as pairs
  // (worker, step). A worker is identified by its incarnation (the number that
  // it got when it joined). Older requests get lower steps.
  std::vector<std::pair<int64_t, int64_t>> Grant();

 private:
  int64_t limit_;
  int64_t next_;  // First step never leased.
  // Incomplete steps of workers that have left. They are leased again before
  // new steps.
  std::set<int64_t> returned_;
  std::map<int64_t, int64_t> leased_;  // Maps a leased step to its worker.
  // Workers with open requests, oldest first.
  std::deque<int64_t> requests_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_
