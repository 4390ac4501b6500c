// Counts the calls that a service is serving, so that what they use can be
// taken down after the last of them.
#ifndef TRIBUTARY_COMMON_TRANSPORT_LIVE_CALLS_H_
#define TRIBUTARY_COMMON_TRANSPORT_LIVE_CALLS_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Thread-safe. Shared by the service and its calls, the last of which may
// outlive the service by an instant.
class LiveCalls {
 public:
  // Held by a call from its beginning until it has done its last work.
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

  // Waits until there is no call. Only after the gRPC server has been shut down
  // will none begin.
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
