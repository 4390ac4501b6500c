#include "server/coordinator/work_assignment.h"

#include <algorithm>
#include <string>

#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Assignments of jobs with at most this many workers are never delayed.
constexpr int kManyWorkers = 64;

// Returns the number of members that have received Open.
int OpenedCount(const Membership& membership) {
  const auto& members = membership.members();
  return static_cast<int>(
      std::count_if(members.begin(), members.end(),
                    [](const auto& entry) { return entry.second.opened; }));
}

}  // namespace

WorkAssignment::WorkAssignment(Attempt* attempt)
    : attempt_(*attempt),
      secrets_(attempt->options.secret_key),
      stages_chosen_(!attempt->in_stages()) {}

void WorkAssignment::Assign() {
  assignment_due_ = attempt_.membership.count() > kManyWorkers &&
                    attempt_.now() - assigned_ < kAssignInterval;
  if (assignment_due_) {
    GrantSteps();
  } else {
    AssignNow();
  }
}

void WorkAssignment::AssignIfDue() {
  if (assignment_due_ && attempt_.phase.training()) AssignNow();
}

void WorkAssignment::AssignNow() {
  assignment_due_ = false;
  assigned_ = attempt_.now();
  Send(attempt_.mode->Assign(attempt_.progress->facts().evaluation_pieces(),
                             attempt_.now()));
  GrantSteps();
}

void WorkAssignment::OrderStages(int awaited) {
  if (!attempt_.in_stages() || !attempt_.layout.has_value()) return;
  if (attempt_.phase.training()) {
    Assign();
  } else if (attempt_.phase.waiting()) {
    if (!stages_chosen_) ChooseStages(awaited);
    if (!stages_chosen_) return;
    Send(attempt_.mode->OrderStages(attempt_.now()));
  }
}

void WorkAssignment::ChooseStages(int awaited) {
  const int opened = OpenedCount(attempt_.membership);
  first_opened_ = opened == 0 ? absl::InfiniteFuture()
                              : std::min(first_opened_, attempt_.now());
  const bool late =
      attempt_.now() - first_opened_ >= attempt_.options.start_timeout;
  if (opened == 0 || (opened < awaited && !late)) return;
  const auto lines = attempt_.mode->ChooseStages();
  if (!lines.ok()) return attempt_.Fail(lines.status(), /*exit_code=*/2);
  for (const std::string& line : *lines) {
    attempt_.Note(JobEvent::INFO, "stage", line);
  }
  stages_chosen_ = true;
}

bool WorkAssignment::EnoughSynced(int awaited) const {
  if (attempt_.in_stages()) {
    awaited = std::min(awaited, OpenedCount(attempt_.membership));
  }
  return attempt_.membership.synced_count() >= awaited;
}

void WorkAssignment::Send(
    std::map<int64_t, std::vector<CoordinatorOrder>> orders) {
  for (auto& [incarnation, list] : orders) {
    const Member* const member = attempt_.membership.Find(incarnation);
    for (CoordinatorOrder& order : list) {
      if (order.has_deal()) {
        Deal* const deal = order.mutable_deal();
        deal->set_evaluated_version(announced_version_);
        if (announced_factor_.has_value()) {
          deal->set_rate_factor(*announced_factor_);
        }
        deal->set_secret(secrets_.OfAssignment(incarnation, *deal));
        for (StagePeer& peer : *deal->mutable_peer()) {
          peer.set_secret(secrets_.OfPair(incarnation, peer.incarnation()));
        }
      }
      member->link->Send(order);
    }
    attempt_.progress->breakdown()->Introduce(incarnation, member->rank);
  }
}

void WorkAssignment::GrantSteps() {
  if (attempt_.phase.training()) attempt_.mode->GrantSteps(StepLimit());
}

absl::Status WorkAssignment::OnStepRequest(const Member& member) {
  TRIBUTARY_RETURN_IF_ERROR(attempt_.mode->RequestStep(member));
  GrantSteps();
  return absl::OkStatus();
}

void WorkAssignment::AnnounceEvaluated() {
  // After an early stop, workers receive Finished instead.
  if (announced_version_ ==
          attempt_.progress->evaluations().evaluated_version() ||
      !attempt_.progress->evaluations().stop_reason().empty() ||
      !attempt_.checkpoints->schedule()->best_copied()) {
    return;
  }
  announced_version_ = attempt_.progress->evaluations().evaluated_version();
  announced_factor_ = attempt_.progress->evaluations().rate_factor();
  CoordinatorOrder order;
  order.mutable_evaluated()->set_version(announced_version_);
  if (announced_factor_.has_value()) {
    order.mutable_evaluated()->set_rate_factor(*announced_factor_);
  }
  for (const auto& [incarnation, member] : attempt_.membership.members()) {
    if (member.opened) member.link->Send(order);
  }
}

void WorkAssignment::TellFinished() {
  attempt_.finishing_since = attempt_.now();
  CoordinatorOrder order;
  order.mutable_finished()->set_version(
      attempt_.progress->evaluations().final_version());
  const Member* sender = nullptr;
  for (const auto& [incarnation, member] : attempt_.membership.members()) {
    if (member.has_untrained &&
        (sender == nullptr || member.rank < sender->rank)) {
      sender = &member;
    }
  }
  if (sender != nullptr && !attempt_.untrained.complete()) {
    untrained_from_ = sender->incarnation;
    order.mutable_finished()->set_send_untrained(true);
    sender->link->Send(order);
    return;
  }
  for (const auto& [incarnation, member] : attempt_.membership.members()) {
    if (incarnation == untrained_from_) continue;
    if (member.opened) {
      member.link->Send(order);
    } else {
      // It may open its data for a long time yet, and would receive the weights
      // for nothing.
      member.link->Close(absl::OutOfRangeError("the job is done"));
    }
  }
}

absl::Status WorkAssignment::OnUntrained(int64_t incarnation,
                                         const UntrainedTensorPart& part) {
  if (!attempt_.phase.finishing() || incarnation != untrained_from_) {
    return absl::FailedPreconditionError(
        "untrained tensors from a worker that was not asked for them");
  }
  TRIBUTARY_RETURN_IF_ERROR(attempt_.untrained.Add(part));
  attempt_.finishing_since = attempt_.now();
  if (attempt_.untrained.complete()) TellFinished();
  return absl::OkStatus();
}

void WorkAssignment::OnWorkerGone(int64_t incarnation) {
  if (!attempt_.phase.finishing() || incarnation != untrained_from_ ||
      attempt_.untrained.complete()) {
    return;
  }
  attempt_.untrained.Clear();
  untrained_from_ = 0;
  TellFinished();
}

int64_t WorkAssignment::StepLimit() const {
  int64_t limit = attempt_.progress->evaluations().Next();
  // No step after this version before Evaluated.
  if (announced_version_ <
      attempt_.progress->evaluations().evaluated_version()) {
    limit =
        std::min(limit, attempt_.progress->evaluations().evaluated_version());
  }
  const CheckpointSchedule& schedule = *attempt_.checkpoints->schedule();
  if (schedule.version() < 0 || schedule.taken()) return limit;
  return std::min(limit, schedule.version());
}

}  // namespace tributary
