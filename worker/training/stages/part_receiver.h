// Receives parts of gradients while the compute thread does something else.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGES_PART_RECEIVER_H_
#define TRIBUTARY_WORKER_TRAINING_STAGES_PART_RECEIVER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"

namespace tributary {

// Receives the parts of a stage's gradients that later stages compute, in one
// thread for each route (see StageSplit::Part), on which micro-batches follow
// one another.
//
// The compute thread may meanwhile wait for other transfers. If it received the
// parts itself, between its passes, the parts that arrive while it waits would
// stay in their queues. Their senders would wait for free slots, and the
// compute thread for the senders. For the same reason, a route does not wait
// for another one: the stage that sends on the first may have to receive from
// the stage that sends on the second.
//
// Add, Take and Discard may be called by one thread.
class PartReceiver {
 public:
  explicit PartReceiver(int routes);

  // Calls `receive` for each route, from 0, when the earlier calls for the
  // route have returned.
  void Add(const std::function<absl::Status(int route)>& receive)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the result of the oldest Add whose result was not taken: its first
  // error, or OK. Returns nullopt if not all of its calls have returned or,
  // with `wait`, blocks until they have; there must then be such an Add.
  std::optional<absl::Status> Take(bool wait) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until all calls have returned, and forgets their results.
  void Discard() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Result {
    int missing = 0;  // Routes whose calls have not returned.
    absl::Status status;
  };

  absl::Mutex mu_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::shared_ptr<Result>> results_ ABSL_GUARDED_BY(mu_);
  // By route. End before what their calls use.
  std::vector<std::unique_ptr<ThreadPool>> threads_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGES_PART_RECEIVER_H_
