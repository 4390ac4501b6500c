// The workers whose contributions are refused.
#ifndef TRIBUTARY_COMMON_UPDATE_REVOKED_WORKERS_H_
#define TRIBUTARY_COMMON_UPDATE_REVOKED_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// The incarnations (numbers of memberships) of the workers that have violated
// the protocol. Such a worker is removed, and must join again before it can
// cause a further entry. Thread-safe.
class RevokedWorkers {
 public:
  void Add(int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    revoked_.insert(incarnation);
    any_ = true;
  }

  // Returns Aborted if the worker was added.
  absl::Status Check(int64_t incarnation) const ABSL_LOCKS_EXCLUDED(mu_) {
    if (!any_) return absl::OkStatus();
    absl::MutexLock lock(&mu_);
    if (revoked_.count(incarnation) == 0) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat(
        "incarnation ", incarnation,
        " is no longer a member, because it has violated the protocol"));
  }

 private:
  mutable absl::Mutex mu_;
  std::set<int64_t> revoked_ ABSL_GUARDED_BY(mu_);
  // False while `revoked_` is empty, so that most contributions need no lock.
  std::atomic<bool> any_{false};
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_REVOKED_WORKERS_H_
