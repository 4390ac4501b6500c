// What an attempt tells about itself: events, status, summary and manifest.
#include "common/job/job.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/job_status.h"

namespace tributary {

void Attempt::Note(JobEvent::Severity severity, const std::string& kind,
                   const std::string& message, const std::string& role,
                   int number) {
  if (!options_.on_event) return;
  JobEvent event;
  event.set_step(progress_.has_value() ? progress_->completed_steps() : 0);
  event.set_attempt(options_.attempt);
  event.set_severity(severity);
  event.set_kind(kind);
  event.set_message(message);
  event.set_role(role);
  event.set_number(number);
  options_.on_event(event);
}

void Attempt::FlushMetrics() {
  for (const std::string& line : progress_->TakeMetrics()) metrics_(line);
}

CheckpointManifest Attempt::FinalManifest() const {
  return complete() ? options_.resume->manifest
                    : checkpoints_->FinalManifest(*progress_);
}

StatusReply Attempt::Describe() const {
  StatusReply reply = DescribeJob(
      {servers_, membership_, progress_.has_value() ? &*progress_ : nullptr,
       checkpoints_.has_value() ? &*checkpoints_ : nullptr, phase_,
       options_.attempt, options_.lease, clock_()});
  reply.set_model(ModelTitle(options_.job));
  reply.set_workers_lost(workers_lost_);
  reply.set_lease_expiries(lease_expiries_);
  reply.set_parameters(layout_.has_value() ? layout_->parameter_count() : 0);
  return reply;
}

std::string Attempt::Summary(const std::string& weights_sha256) const {
  RunFacts facts;
  facts.job = &options_.job;
  facts.failure = phase_.failure();
  facts.stopped = phase_.drained();
  facts.attempt = options_.attempt;
  if (checkpoints_.has_value()) {
    facts.checkpoint_failures = checkpoints_->schedule().failures();
    facts.checkpoint_failure = checkpoints_->schedule().failure();
  }
  if (progress_.has_value()) facts.skipped_steps = progress_->skipped_steps();
  facts.progress = progress_.has_value() ? &*progress_ : nullptr;
  facts.parameters = layout_.has_value() ? layout_->parameter_count() : 0;
  facts.workers = most_workers_;
  facts.workers_lost = workers_lost_;
  facts.reassignments_by_speed = assignments_by_speed_;
  facts.servers = options_.servers;
  facts.processes = farewells_;
  facts.weights_sha256 = weights_sha256;
  return SummaryJson(facts);
}

}  // namespace tributary
