// The calls that a server accepts from within its process.
#ifndef TRIBUTARY_COMMON_STREAM_LOCAL_CALLS_H_
#define TRIBUTARY_COMMON_STREAM_LOCAL_CALLS_H_

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/executor.h"

namespace tributary {

// Counts the calls in progress, so that the objects that they use are destroyed
// after the last one. Thread-safe.
class LocalCalls {
 public:
  // A call, as its server sees it. Destroyed by its last owner.
  class Call {
   public:
    virtual ~Call() = default;
    // Ends the call with this status, unless it has ended. Does not block.
    virtual void Cancel(const absl::Status& status) = 0;
  };

  // `executor` delivers the messages. It must outlive this object and all
  // streams, and have at least two threads.
  explicit LocalCalls(Executor* executor) : executor_(executor) {}
  LocalCalls(const LocalCalls&) = delete;
  LocalCalls& operator=(const LocalCalls&) = delete;

  Executor* executor() const { return executor_; }

  // Counts a call until Remove. Returns false if no call is accepted any more.
  bool Add(std::shared_ptr<Call> call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(Call* call) ABSL_LOCKS_EXCLUDED(mu_);

  // Accepts no further calls, and blocks until there are none. Cancels those
  // that are still in progress after `timeout`. Must not be called by a task of
  // the executor.
  void ShutDown(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Executor* const executor_;
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<Call*, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_LOCAL_CALLS_H_
