#include "server/coordinator/job_status.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"

namespace tributary {
namespace {

int64_t LeaseLeft(const Attempt& attempt, absl::Time last_heard) {
  return std::max<int64_t>(
      0, absl::ToInt64Milliseconds(attempt.options.lease -
                                   (attempt.now() - last_heard)));
}

void FillIdentity(const ProcessIdentity& identity, ProcessStatus* process) {
  process->set_host(identity.host);
  process->set_pid(identity.pid);
  process->set_release(identity.release);
  process->set_device(identity.device);
}

void FillProcesses(const Attempt& attempt, StatusReply* reply) {
  const int64_t round =
      !attempt.progress.has_value() ? 0 : attempt.progress->round();
  const Member* const straggler =
      attempt.phase.training() ? attempt.membership.Straggler(round) : nullptr;
  const std::string whom = straggler == nullptr
                               ? std::string()
                               : absl::StrCat("worker ", straggler->rank, ": ",
                                              straggler->heartbeat.phase());
  const int missing = attempt.servers.FirstMissing();
  for (size_t shard = 0; shard < attempt.servers.servers().size(); ++shard) {
    const ServerRoster::Server& server = attempt.servers.servers()[shard];
    ProcessStatus* const process = reply->add_process();
    process->set_role("server");
    process->set_number(static_cast<int>(shard));
    process->set_place(server.address);
    process->set_step(shard == 0 ? round : server.version);
    process->set_phase(server.link == nullptr ? "absent"
                       : server.configured    ? "ready"
                                              : "loading");
    process->set_silent_ms(shard == 0 ? -1
                                      : absl::ToInt64Milliseconds(
                                            attempt.now() - server.last_heard));
    process->set_lease_left_ms(-1);
    if (server.link == nullptr) continue;
    FillIdentity(server.identity, process);
    if (server.statistics.has_value()) {
      *process->mutable_statistics() = *server.statistics;
    }
    if (shard > 0) {
      process->set_lease_left_ms(LeaseLeft(attempt, server.last_heard));
    }
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (attempt.membership.members().empty()) {
      process->set_waits_for("workers");
    } else {
      process->set_waits_for(whom);
    }
  }
  for (const auto& [incarnation, member] : attempt.membership.members()) {
    ProcessStatus* const process = reply->add_process();
    process->set_role("worker");
    process->set_number(member.rank);
    process->set_place(absl::StrCat(member.host, ", process ", member.pid,
                                    member.device.empty() ? "" : ", ",
                                    member.device));
    process->set_step(member.heartbeat.step());
    process->set_phase(member.heartbeat.phase());
    process->set_silent_ms(
        absl::ToInt64Milliseconds(attempt.now() - member.last_heard));
    process->set_lease_left_ms(LeaseLeft(attempt, member.last_heard));
    FillIdentity({member.host, member.pid, member.release, member.device},
                 process);
    if (member.heartbeat.has_statistics()) {
      *process->mutable_statistics() = member.heartbeat.statistics();
    }
    process->set_leaf_begin(member.first_micro_batch);
    process->set_leaf_end(member.first_micro_batch + member.micro_batches);
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (attempt.phase.waiting() &&
               (member.synced ||
                (member.ready && !attempt.progress.has_value()))) {
      process->set_waits_for("other workers");
    } else if (member.synced && member.micro_batches == 0) {
      process->set_waits_for("micro-batches: it is a spare");
    } else if (&member != straggler && member.heartbeat.phase() == "exchange") {
      process->set_waits_for(whom);
    }
  }
}

// Sets the worker that the current step waits for, if the step takes unusually
// long.
void FillStall(const Attempt& attempt, StatusReply* reply) {
  const absl::Duration taken = attempt.progress->Stalled(attempt.now());
  if (taken == absl::ZeroDuration()) return;
  const Member* straggler =
      attempt.membership.Straggler(attempt.progress->round());
  if (straggler == nullptr) return;
  reply->set_waiting_rank(straggler->rank);
  reply->set_waiting_milliseconds(absl::ToDoubleMilliseconds(taken));
  reply->set_waiting_phase(straggler->heartbeat.phase());
}

StatusReply::Phase PhaseOf(AttemptPhase::Phase phase) {
  switch (phase) {
    case AttemptPhase::Phase::kWaiting:
      return StatusReply::WAITING;
    case AttemptPhase::Phase::kTraining:
      return StatusReply::TRAINING;
    case AttemptPhase::Phase::kFinishing:
      return StatusReply::FINISHING;
    case AttemptPhase::Phase::kDone:
      return StatusReply::DONE;
    case AttemptPhase::Phase::kRecovering:
      return StatusReply::RECOVERING;
    case AttemptPhase::Phase::kDrained:
      return StatusReply::DRAINED;
    case AttemptPhase::Phase::kFailed:
      return StatusReply::FAILED;
  }
  return StatusReply::PHASE_UNSPECIFIED;
}

}  // namespace

StatusReply DescribeJob(const Attempt& attempt) {
  StatusReply reply;
  reply.set_evaluation_version(-1);
  if (attempt.progress.has_value()) attempt.progress->FillStatus(&reply);
  reply.set_phase(PhaseOf(attempt.phase.phase()));
  reply.set_attempt(attempt.options.attempt);
  reply.set_checkpoint_step(-1);
  if (attempt.checkpoints.has_value()) {
    const CheckpointSchedule& schedule = attempt.checkpoints->schedule();
    reply.set_checkpoint_step(attempt.checkpoints->committed_step());
    reply.set_checkpoint_failures(schedule.failures());
    reply.set_checkpoint_failure(schedule.failure());
  }
  for (const auto& [incarnation, member] : attempt.membership.members()) {
    if (member.heartbeat.phase() == "evaluate" && attempt.phase.training()) {
      reply.set_phase(StatusReply::EVALUATING);
    }
  }
  if (reply.phase() == StatusReply::TRAINING) FillStall(attempt, &reply);
  FillProcesses(attempt, &reply);
  reply.set_workers(attempt.membership.count());
  reply.set_servers(static_cast<int>(attempt.servers.servers().size()));
  const absl::Status& failure = attempt.phase.failure();
  const std::optional<Attempt::SavedEnding>& ending = attempt.saved_ending;
  if (!failure.ok()) {
    reply.set_failure(std::string(failure.message()));
    reply.set_failure_exit_code(attempt.phase.failure_exit_code());
  } else if (ending.has_value() && ending->exit_code.has_value()) {
    reply.set_failure(std::string(ending->reason.message()));
    reply.set_failure_exit_code(*ending->exit_code);
  }
  reply.set_model(ModelTitle(attempt.options.job));
  reply.set_workers_lost(attempt.workers_lost);
  reply.set_lease_expiries(attempt.lease_expiries);
  reply.set_parameters(
      attempt.layout.has_value() ? attempt.layout->parameter_count() : 0);
  return reply;
}

}  // namespace tributary
