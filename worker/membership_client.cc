#include "worker/membership_client.h"

#include "absl/strings/str_cat.h"
#include "common/transport/channel.h"

namespace tributary {

void MembershipClient::Begin(Rendezvous::Stub* stub, const std::string& address,
                             const Join& join) {
  address_ = address;
  stub->async()->Membership(context(), this);
  WorkerReport report;
  *report.mutable_join() = join;
  Start();
  Send(report);
}

absl::StatusOr<Admission> MembershipClient::AwaitAdmission() {
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return admission_.has_value() || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&settled));
  if (!admission_.has_value()) return ended_;
  return *admission_;
}

void MembershipClient::Attach(WorkState* state) {
  absl::MutexLock lock(&mu_);
  state_ = state;
  if (!ended_.ok()) state->Fail(ended_);
}

void MembershipClient::Detach() {
  absl::MutexLock lock(&mu_);
  state_ = nullptr;
}

absl::Status MembershipClient::AwaitOpen() {
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return opened_ || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&settled));
  return opened_ ? absl::OkStatus() : ended_;
}

bool MembershipClient::admitted() const {
  absl::MutexLock lock(&mu_);
  return admission_.has_value();
}

bool MembershipClient::stopped() const {
  absl::MutexLock lock(&mu_);
  return stopped_;
}

bool MembershipClient::finished() const {
  absl::MutexLock lock(&mu_);
  return finished_;
}

bool MembershipClient::OnMessage(CoordinatorOrder* order) {
  absl::MutexLock lock(&mu_);
  if (order->has_admission()) {
    admission_ = order->admission();
    return true;
  }
  if (order->has_finished() && order->finished().stopped()) stopped_ = true;
  // Before Ready nothing else comes, after the worker's end nothing matters.
  if (state_ == nullptr) return true;
  switch (order->order_case()) {
    case CoordinatorOrder::kOpen:
      if (order->open().initialize()) state_->RequestInitialize();
      opened_ = true;
      break;
    case CoordinatorOrder::kDeal:
      state_->SetDeal(order->deal());
      break;
    case CoordinatorOrder::kEvaluated:
      state_->SetEvaluated(order->evaluated().version());
      break;
    case CoordinatorOrder::kClaimed:
      state_->SetClaimed(order->claimed().step());
      break;
    case CoordinatorOrder::kFinished:
      if (stopped_) {
        state_->Fail(absl::CancelledError("the job was stopped"));
        break;
      }
      finished_ = true;
      state_->SetFinished();
      break;
    default:
      break;
  }
  return true;
}

void MembershipClient::OnGone(const grpc::Status& status) {
  absl::MutexLock lock(&mu_);
  ended_ = status.ok()
               ? absl::UnavailableError(absl::StrCat("coordinator ", address_,
                                                     " ended the connection"))
               : FromGrpc(status, absl::StrCat("coordinator ", address_));
  if (state_ == nullptr) return;
  // Who was told that the job is done, but has not seen its end, need not look
  // for servers that are no more.
  state_->Fail(finished_ ? absl::OutOfRangeError("the job is done") : ended_);
}

}  // namespace tributary
