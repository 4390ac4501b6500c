#include "worker/exchange/stages/stage_links.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::Status StageLinks::Send(int64_t epoch, int64_t to, const TransferKey& key,
                              const TransferScalars& scalars,
                              absl::Span<const absl::string_view> parts) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<StageLink> link,
                             LinkTo(to, epoch));
  return link->Send(epoch, key, scalars, parts);
}

absl::Status StageLinks::Flush() {
  std::vector<std::shared_ptr<StageLink>> links;
  {
    absl::MutexLock lock(&mu_);
    TRIBUTARY_RETURN_IF_ERROR(failed_);
    for (const auto& [to, link] : links_) {
      if (link != nullptr) links.push_back(link);
    }
  }
  absl::Status status;
  for (const auto& link : links) status.Update(link->Flush());
  return status;
}

void StageLinks::BeginEpoch(int64_t epoch, int64_t first_step,
                            const std::set<int64_t>& receivers) {
  std::vector<std::shared_ptr<StageLink>> closed;
  absl::MutexLock lock(&mu_);
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  ended_step_ = first_step - 1;
  for (auto it = links_.begin(); it != links_.end();) {
    const std::shared_ptr<StageLink>& link = it->second;
    if (link == nullptr) {  // Removed by the call that opens it.
      ++it;
    } else if (link->status().ok() && receivers.count(it->first) > 0) {
      link->BeginEpoch(epoch, first_step);
      ++it;
    } else {
      link->Cancel(Refusal(epoch - 1));
      closed.push_back(link);
      it = links_.erase(it);
    }
  }
  if (closed.empty()) return;
  closer_.Run([closed = std::move(closed)]() mutable { closed.clear(); });
}

void StageLinks::EndStep(int64_t epoch, int64_t step) {
  absl::MutexLock lock(&mu_);
  if (epoch < epoch_) return;
  ended_step_ = std::max(ended_step_, step);
  for (const auto& [to, link] : links_) {
    if (link != nullptr) link->EndStep(epoch, step);
  }
}

void StageLinks::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!failed_.ok()) return;
  failed_ = status;
  for (const auto& [to, link] : links_) {
    if (link != nullptr) link->Cancel(status);
  }
}

absl::StatusOr<std::shared_ptr<StageLink>> StageLinks::LinkTo(int64_t to,
                                                              int64_t epoch) {
  {
    absl::MutexLock lock(&mu_);
    const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      const auto found = links_.find(to);
      return found == links_.end() || found->second != nullptr ||
             !Refusal(epoch).ok();
    };
    Await(&mu_, absl::Condition(&decided));
    TRIBUTARY_RETURN_IF_ERROR(Refusal(epoch));
    const std::shared_ptr<StageLink>& link = links_[to];
    if (link != nullptr) return link;
    // The null pointer in the map makes other calls wait.
  }
  absl::StatusOr<std::shared_ptr<StageLink>> opened =
      open_(to, epoch, [this, epoch] {
        absl::MutexLock lock(&mu_);
        return !Refusal(epoch).ok();
      });
  absl::MutexLock lock(&mu_);
  const absl::Status refusal = Refusal(epoch);
  if (!opened.ok() || !refusal.ok()) {
    links_.erase(to);
    return refusal.ok() ? opened.status() : refusal;
  }
  std::shared_ptr<StageLink> link = *std::move(opened);
  link->BeginEpoch(epoch, /*first_step=*/0);
  link->EndStep(epoch, ended_step_);
  links_[to] = link;
  return link;
}

absl::Status StageLinks::Refusal(int64_t epoch) const {
  if (!failed_.ok()) return failed_;
  if (epoch < epoch_) {
    return absl::AbortedError(
        absl::StrCat("assignment ", epoch, " is over; the newest is ", epoch_));
  }
  if (epoch > epoch_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "assignment ", epoch, " has not begun; the newest is ", epoch_));
  }
  return absl::OkStatus();
}

}  // namespace tributary
