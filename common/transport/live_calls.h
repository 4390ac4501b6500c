// Counts a service's calls in progress, so that the objects that these calls
// use are destroyed after the last call.
#ifndef TRIBUTARY_COMMON_TRANSPORT_LIVE_CALLS_H_
#define TRIBUTARY_COMMON_TRANSPORT_LIVE_CALLS_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Counts the calls in progress. Thread-safe. The service and its calls share
// the ownership of this object, because a call may outlive the service briefly.
class LiveCalls {
 public:
  // Counts one call. Each call holds a Token until its last access to objects
  // that the service uses.
  class Token {
   public:
    explicit Token(std::shared_ptr<LiveCalls> calls)
        : calls_(std::move(calls)) {
      absl::MutexLock lock(&calls_->mu_);
      ++calls_->count_;
    }
    ~Token() {
      absl::MutexLock lock(&calls_->mu_);
      --calls_->count_;
    }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

   private:
    const std::shared_ptr<LiveCalls> calls_;
  };

  // Blocks until no call is in progress. Call after the gRPC server has been
  // shut down; otherwise new calls may start.
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mu_) {
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return count_ == 0;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&none));
  }

 private:
  absl::Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_LIVE_CALLS_H_
