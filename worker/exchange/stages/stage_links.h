// The links of one worker of a pipeline.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINKS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/thread_pool.h"
#include "worker/exchange/stages/stage_link.h"
#include "worker/exchange/stages/transfer.h"

namespace tributary {

// Sends transfers to the workers that an assignment names, and opens a link to
// each of them when it is first needed. Workers are identified by their
// incarnations, assignments by their epochs.
//
// Thread-safe. Send, Flush and the destructor block, the destructor only while
// connections are closed.
class StageLinks {
 public:
  // Opens a link to the worker `to` for transfers of `epoch` and later epochs.
  // May block; must return soon, with any error, when `stop` returns true, and
  // call it repeatedly until then. Called from threads that call Send, at most
  // once at a time for each worker.
  using Opener = std::function<absl::StatusOr<std::unique_ptr<StageLink>>(
      int64_t to, int64_t epoch, const std::function<bool()>& stop)>;

  explicit StageLinks(Opener open) : open_(std::move(open)) {}
  StageLinks(const StageLinks&) = delete;
  StageLinks& operator=(const StageLinks&) = delete;

  // Sends a transfer to the worker `to`, as StageLink::Send does, whose errors
  // it returns. Also returns the errors of the Opener, after which the next
  // call tries again, and FailedPrecondition if the epoch has not begun.
  absl::Status Send(int64_t epoch, int64_t to, const TransferKey& key,
                    const TransferScalars& scalars,
                    absl::Span<const absl::string_view> parts)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until the receivers have released everything that was sent. Returns
  // the first error.
  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mu_);

  // Begins an epoch, as StageLink::BeginEpoch does, in which this worker sends
  // only to `receivers`. Closes links to other workers, and those that have
  // failed.
  void BeginEpoch(int64_t epoch, int64_t first_step,
                  const std::set<int64_t>& receivers) ABSL_LOCKS_EXCLUDED(mu_);
  // See StageLink::EndStep.
  void EndStep(int64_t epoch, int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // All calls return `status`, which must be an error.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Returns the link to a worker, which it opens if necessary.
  absl::StatusOr<std::shared_ptr<StageLink>> LinkTo(int64_t to, int64_t epoch)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Refusal(int64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Opener open_;
  mutable absl::Mutex mu_;
  int64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ended_step_ ABSL_GUARDED_BY(mu_) = -1;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  // By receiver. Null while the link is being opened. Shared with calls of
  // Send, which may end after BeginEpoch has removed the link.
  std::map<int64_t, std::shared_ptr<StageLink>> links_ ABSL_GUARDED_BY(mu_);
  // Closes links, which blocks. BeginEpoch may be called in a reaction to a
  // message, which must not.
  ThreadPool closer_{1};
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_LINKS_H_
