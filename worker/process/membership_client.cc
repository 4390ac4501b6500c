#include "worker/process/membership_client.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

constexpr char kJobDone[] = "tributary/job_done";

}  // namespace

absl::Status JobDoneStatus() {
  absl::Status status = absl::OutOfRangeError("the job is done");
  status.SetPayload(kJobDone, absl::Cord());
  return status;
}

bool IsJobDone(const absl::Status& status) {
  return status.GetPayload(kJobDone).has_value();
}

void MembershipClient::Begin(std::unique_ptr<MembershipStream> stream,
                             const std::string& address, const Join& join) {
  stream_ = std::move(stream);
  address_ = address;
  stream_->Start(this);
  WorkerReport report;
  *report.mutable_join() = join;
  stream_->Send(report);
}

absl::StatusOr<Admission> MembershipClient::AwaitAdmission() {
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return admission_.has_value() || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  if (!admission_.has_value()) return ended_;
  return *admission_;
}

void MembershipClient::Attach(WorkState* state) {
  absl::MutexLock lock(&mu_);
  state_ = state;
  if (!ended_.ok()) state->Fail(ended_);
  if (finished_) {
    state->SetLastVersion(last_version_);
    state->SetFinished();
  }
}

void MembershipClient::Detach() {
  absl::MutexLock lock(&mu_);
  state_ = nullptr;
}

absl::StatusOr<Open> MembershipClient::AwaitOpen() {
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return open_.has_value() || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  if (!open_.has_value()) return ended_;
  return *open_;
}

absl::StatusOr<Stage> MembershipClient::AwaitStage(int64_t generation) {
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return (stage_.has_value() && stage_->generation() > generation) ||
           finished_ || stopped_ || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  if (finished_) return JobDoneStatus();
  if (stopped_) return absl::CancelledError("the job was stopped");
  if (!ended_.ok()) return ended_;
  return *stage_;
}

void MembershipClient::SetStageOrdered(int64_t generation,
                                       std::function<void()> ordered) {
  absl::MutexLock lock(&mu_);
  stage_ordered_ = std::move(ordered);
  if (stage_ordered_ && stage_.has_value() &&
      stage_->generation() > generation) {
    stage_ordered_();
  }
}

void MembershipClient::SetStepComplete(
    std::function<void(int64_t step)> complete) {
  absl::MutexLock lock(&mu_);
  step_complete_ = std::move(complete);
}

absl::StatusOr<Group> MembershipClient::AwaitGroup(int64_t stage_generation) {
  const auto restaged = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stage_.has_value() && stage_->generation() > stage_generation;
  };
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return group_.has_value() || restaged() || finished_ || stopped_ ||
           !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  if (group_.has_value()) return *group_;
  if (restaged()) return absl::AbortedError("the worker gets other stages");
  if (finished_) return JobDoneStatus();
  return stopped_ ? absl::CancelledError("the job was stopped") : ended_;
}

absl::StatusOr<std::string> MembershipClient::AwaitPublication(
    const std::string& name) {
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return published_.count(name) > 0 || stopped_ || !ended_.ok();
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  const auto found = published_.find(name);
  if (found != published_.end()) return found->second;
  return stopped_ ? absl::CancelledError("the job was stopped") : ended_;
}

void MembershipClient::SetSave(std::function<void(int64_t version)> save) {
  absl::MutexLock lock(&mu_);
  save_ = std::move(save);
  if (!save_) return;
  for (const int64_t version : saves_) save_(version);
  saves_.clear();
}

void MembershipClient::SetDeal(std::function<void(const Deal&)> deal) {
  absl::MutexLock lock(&mu_);
  deal_ = std::move(deal);
}

void MembershipClient::SetReading(
    std::function<void(const ClockReading&)> reading) {
  absl::MutexLock lock(&mu_);
  reading_ = std::move(reading);
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

std::optional<int64_t> MembershipClient::untrained_due() const {
  absl::MutexLock lock(&mu_);
  return send_untrained_ ? std::make_optional(last_version_) : std::nullopt;
}

bool MembershipClient::OnMessage(const CoordinatorOrder& order,
                                 ReceivedPayload) {
  absl::MutexLock lock(&mu_);
  if (order.has_admission()) {
    admission_ = order.admission();
    return true;
  }
  if (order.has_finished() && order.finished().stopped()) stopped_ = true;
  if (order.has_stage()) {
    stage_ = order.stage();
    if (stage_ordered_) stage_ordered_();
    return true;
  }
  // Before Ready the coordinator sends nothing else. After Detach, orders have
  // no effect.
  if (state_ == nullptr) return true;
  switch (order.order_case()) {
    case CoordinatorOrder::kOpen:
      if (order.open().initialize()) state_->RequestInitialize();
      open_ = order.open();
      break;
    case CoordinatorOrder::kGroup:
      group_ = order.group();
      break;
    case CoordinatorOrder::kPublication: {
      std::string& value = published_[order.publication().name()];
      value.clear();
      for (const std::string& part : order.publication().part()) value += part;
      break;
    }
    case CoordinatorOrder::kSave:
      if (save_) {
        save_(order.save().version());
      } else {
        saves_.push_back(order.save().version());
      }
      break;
    case CoordinatorOrder::kClockReading:
      if (reading_) reading_(order.clock_reading());
      break;
    case CoordinatorOrder::kDeal:
      if (deal_) deal_(order.deal());
      state_->SetAssignment(order.deal());
      break;
    case CoordinatorOrder::kStepComplete:
      state_->SetStepComplete(order.step_complete().step());
      if (step_complete_) step_complete_(order.step_complete().step());
      break;
    case CoordinatorOrder::kEvaluated:
      state_->SetEvaluated(order.evaluated().version());
      break;
    case CoordinatorOrder::kClaimed:
      state_->AddStepLease(order.claimed().step());
      break;
    case CoordinatorOrder::kFinished:
      if (stopped_) {
        state_->Fail(absl::CancelledError("the job was stopped"));
        break;
      }
      finished_ = true;
      last_version_ = order.finished().version();
      send_untrained_ = order.finished().send_untrained();
      state_->SetLastVersion(last_version_);
      state_->SetFinished();
      break;
    default:
      break;
  }
  return true;
}

void MembershipClient::OnGone(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  ended_ = status.ok() ? absl::UnavailableError(absl::StrCat(
                             "coordinator ", address_, " ended the connection"))
                       : absl::Status(status.code(),
                                      absl::StrCat("coordinator ", address_,
                                                   ": ", status.message()));
  // The coordinator ends a stream with this code for no other reason.
  if (absl::IsOutOfRange(status)) ended_ = JobDoneStatus();
  if (state_ == nullptr) return;
  // A worker that has received Finished must not look for servers that have
  // already exited.
  state_->Fail(finished_ ? JobDoneStatus() : ended_);
}

}  // namespace tributary
