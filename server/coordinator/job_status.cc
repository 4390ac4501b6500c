#include "server/coordinator/job_status.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

int64_t LeaseLeft(const JobView& view, absl::Time last_heard) {
  return std::max<int64_t>(
      0, absl::ToInt64Milliseconds(view.lease - (view.now - last_heard)));
}

void FillIdentity(const ProcessIdentity& identity, ProcessStatus* process) {
  process->set_host(identity.host);
  process->set_pid(identity.pid);
  process->set_release(identity.release);
  process->set_device(identity.device);
}

void FillProcesses(const JobView& view, StatusReply* reply) {
  const int64_t round = view.progress == nullptr ? 0 : view.progress->round();
  const Member* const straggler =
      view.phase.training() ? view.membership.Straggler(round) : nullptr;
  const std::string whom = straggler == nullptr
                               ? std::string()
                               : absl::StrCat("worker ", straggler->rank, ": ",
                                              straggler->heartbeat.phase());
  const int missing = view.servers.FirstMissing();
  for (size_t shard = 0; shard < view.servers.servers().size(); ++shard) {
    const ServerRoster::Server& server = view.servers.servers()[shard];
    ProcessStatus* const process = reply->add_process();
    process->set_role("server");
    process->set_number(static_cast<int>(shard));
    process->set_place(server.address);
    process->set_step(shard == 0 ? round : server.version);
    process->set_phase(server.link == nullptr ? "absent"
                       : server.configured    ? "ready"
                                              : "loading");
    process->set_silent_ms(
        shard == 0 ? -1
                   : absl::ToInt64Milliseconds(view.now - server.last_heard));
    process->set_lease_left_ms(-1);
    if (server.link == nullptr) continue;
    FillIdentity(server.identity, process);
    if (server.statistics.has_value()) {
      *process->mutable_statistics() = *server.statistics;
    }
    if (shard > 0) {
      process->set_lease_left_ms(LeaseLeft(view, server.last_heard));
    }
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (view.membership.members().empty()) {
      process->set_waits_for("workers");
    } else {
      process->set_waits_for(whom);
    }
  }
  for (const auto& [incarnation, member] : view.membership.members()) {
    ProcessStatus* const process = reply->add_process();
    process->set_role("worker");
    process->set_number(member.rank);
    process->set_place(absl::StrCat(member.host, ", process ", member.pid,
                                    member.device.empty() ? "" : ", ",
                                    member.device));
    process->set_step(member.heartbeat.step());
    process->set_phase(member.heartbeat.phase());
    process->set_silent_ms(
        absl::ToInt64Milliseconds(view.now - member.last_heard));
    process->set_lease_left_ms(LeaseLeft(view, member.last_heard));
    FillIdentity({member.host, member.pid, member.release, member.device},
                 process);
    if (member.heartbeat.has_statistics()) {
      *process->mutable_statistics() = member.heartbeat.statistics();
    }
    process->set_leaf_begin(member.first_micro_batch);
    process->set_leaf_end(member.first_micro_batch + member.micro_batches);
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (view.phase.waiting() &&
               (member.synced || (member.ready && view.progress == nullptr))) {
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
void FillStall(const JobView& view, StatusReply* reply) {
  const absl::Duration taken = view.progress->Stalled(view.now);
  if (taken == absl::ZeroDuration()) return;
  const Member* straggler = view.membership.Straggler(view.progress->round());
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

StatusReply DescribeJob(const JobView& view) {
  StatusReply reply;
  reply.set_evaluation_version(-1);
  if (view.progress != nullptr) view.progress->FillStatus(&reply);
  reply.set_phase(PhaseOf(view.phase.phase()));
  reply.set_attempt(view.attempt);
  reply.set_checkpoint_step(-1);
  if (view.checkpoints != nullptr) {
    const CheckpointSchedule& schedule = view.checkpoints->schedule();
    reply.set_checkpoint_step(view.checkpoints->committed_step());
    reply.set_checkpoint_failures(schedule.failures());
    reply.set_checkpoint_failure(schedule.failure());
  }
  for (const auto& [incarnation, member] : view.membership.members()) {
    if (member.heartbeat.phase() == "evaluate" && view.phase.training()) {
      reply.set_phase(StatusReply::EVALUATING);
    }
  }
  if (reply.phase() == StatusReply::TRAINING) FillStall(view, &reply);
  FillProcesses(view, &reply);
  reply.set_workers(view.membership.count());
  reply.set_servers(static_cast<int>(view.servers.servers().size()));
  const absl::Status& failure = view.phase.failure();
  if (!failure.ok()) {
    reply.set_failure(std::string(failure.message()));
    reply.set_failure_exit_code(view.phase.failure_exit_code());
  }
  return reply;
}

}  // namespace tributary
