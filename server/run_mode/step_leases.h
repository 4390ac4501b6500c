// Which worker computes which step in asynchronous mode.
#ifndef TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_
#define TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tributary {

// Every step is claimed by one worker at a time until it is complete. A worker
// that leaves gives its claims back, and others get them first: what it sent of
// them is not applied again, since servers know the steps that each chunk has
// had. A pure state machine; not thread-safe.
class StepLeases {
 public:
  // Steps [first, limit) may be claimed.
  explicit StepLeases(int64_t limit, int64_t first = 0)
      : limit_(limit), next_(first) {}

  // What has been claimed stays so.
  void SetLimit(int64_t limit) { limit_ = limit; }
  // The worker wants one more step. False: it has more wishes open than any
  // worker can compute, and gets no more.
  bool Request(int64_t worker);
  // The step is applied everywhere: nobody need compute it any more.
  void Complete(int64_t step);
  // The worker is out.
  void Remove(int64_t worker);

  // Steps from here on have not been claimed.
  int64_t next() const { return next_; }

  // (worker, step): new claims, the longest wish and the oldest step first.
  std::vector<std::pair<int64_t, int64_t>> Grant();

 private:
  int64_t limit_;
  int64_t next_;  // Never claimed from here on.
  std::set<int64_t> returned_;
  std::map<int64_t, int64_t> leased_;  // Step to worker.
  std::deque<int64_t> requests_;       // Workers.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_STEP_LEASES_H_
