// Receives parts of gradients while the compute thread does something else.
#ifndef TRIBUTARY_WORKER_TRAINING_PART_RECEIVER_H_
#define TRIBUTARY_WORKER_TRAINING_PART_RECEIVER_H_

#include <deque>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"

namespace tributary {

// Receives the parts of a stage's gradients that later stages compute, in a
// thread of its own, one micro-batch after the other.
//
// The compute thread may meanwhile wait for other transfers. If it received the
// parts itself, between its passes, the parts that arrive while it waits would
// stay in their queues. Their senders would wait for free slots, and the
// compute thread for the senders.
//
// Add, Take and Discard may be called by one thread.
class PartReceiver {
 public:
  // Calls `receive` when all earlier calls have returned.
  void Add(std::function<absl::Status()> receive) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the result of the oldest call whose result was not taken. Returns
  // nullopt if it is not there yet or, with `wait`, blocks until it is. There
  // must be such a call.
  std::optional<absl::Status> Take(bool wait) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until all calls have returned, and forgets their results.
  void Discard() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::Status> results_ ABSL_GUARDED_BY(mu_);
  ThreadPool thread_{1};  // Ends before what its calls use.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_PART_RECEIVER_H_
