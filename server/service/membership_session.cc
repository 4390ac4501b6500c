#include "server/service/membership_session.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

absl::Status MembershipSession::Handle(const WorkerReport& report) {
  if (incarnation_ != 0) {
    return coordinator_->OnWorkerReport(incarnation_, report);
  }
  if (!report.has_join()) {
    return absl::FailedPreconditionError("the first report must be Join");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(incarnation_,
                             coordinator_->AddWorker(report.join(), this));
  return absl::OkStatus();
}

void MembershipSession::OnGone() {
  if (incarnation_ != 0) coordinator_->OnWorkerDisconnected(incarnation_);
}

absl::Status EnlistmentSession::Handle(const ServerReport& report) {
  if (shard_ >= 0) return coordinator_->OnServerReport(shard_, report);
  if (!report.has_enlist()) {
    return absl::FailedPreconditionError("the first report must be Enlist");
  }
  TRIBUTARY_RETURN_IF_ERROR(coordinator_->AddServer(report.enlist(), this));
  shard_ = report.enlist().shard();
  return absl::OkStatus();
}

void EnlistmentSession::OnGone() {
  // Once only: the server may have enlisted again.
  if (shard_ >= 0) coordinator_->ServerGone(std::exchange(shard_, -1));
}

}  // namespace tributary
