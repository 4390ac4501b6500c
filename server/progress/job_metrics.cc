#include "server/progress/job_metrics.h"

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

void AddProgress(const StatusReply& status, MetricsPage* page) {
  page->AddGauge("tributary_step", "Steps completed.",
                 static_cast<double>(status.step()));
  page->AddGauge("tributary_steps", "Steps of the whole job.",
                 static_cast<double>(status.steps()));
  page->AddGauge("tributary_epoch", "Passes over the training data completed.",
                 status.epoch());
  page->AddGauge("tributary_seconds_left",
                 "Estimated time until the end of the job.",
                 status.seconds_left());
  page->AddGauge("tributary_attempt",
                 "Number of the attempt: 1, plus 1 for each time that the job "
                 "resumed.",
                 static_cast<double>(status.attempt()));
  page->AddCounter("tributary_skipped_steps_total",
                   "Steps whose update was skipped because a gradient was not "
                   "finite.",
                   static_cast<double>(status.skipped_steps()));
  // Known once the first line of metrics.jsonl is written.
  if (status.step_milliseconds() > 0) {
    if (status.has_loss()) {
      page->AddGauge("tributary_loss",
                     "Mean training loss of the newest steps.", status.loss());
    }
    page->AddGauge("tributary_learning_rate", "Learning rate.",
                   status.learning_rate());
    page->AddGauge("tributary_gradient_norm",
                   "L2 norm of the newest step's gradient, before clipping.",
                   status.gradient_norm());
    page->BeginGauge("tributary_samples_per_second",
                     "Training speed; text: tokens per second.");
    page->Add(status.samples_per_second(), {{"unit", status.unit()}});
    page->AddGauge("tributary_compute_ratio",
                   "Fraction of the workers' time spent computing.",
                   status.compute_share());
    page->AddGauge("tributary_exchange_ratio",
                   "Fraction of the workers' time spent waiting for weights.",
                   status.exchange_share());
  }
  if (status.evaluation_version() >= 0) {
    page->AddGauge("tributary_evaluation_loss",
                   "Mean loss of the newest evaluation.",
                   status.evaluation_loss());
    page->AddGauge("tributary_evaluation_accuracy",
                   "Fraction of held-out samples that are classified correctly "
                   "in the newest evaluation.",
                   status.evaluation_accuracy());
    const std::map<std::string, double> metrics(
        status.evaluation_metric().begin(), status.evaluation_metric().end());
    if (!metrics.empty()) {
      page->BeginGauge("tributary_evaluation_metric",
                       "Further results of the newest evaluation.");
    }
    for (const auto& [name, value] : metrics)
      page->Add(value, {{"name", name}});
  }
}

void AddProcesses(const JobMetricsInputs& job, MetricsPage* page) {
  const StatusReply& status = job.status;
  page->AddGauge("tributary_servers", "Servers of the job.", status.servers());
  page->AddGauge("tributary_workers", "Workers that are members now.",
                 status.workers());
  page->AddCounter("tributary_workers_lost_total",
                   "Workers that were lost since the attempt began.",
                   static_cast<double>(job.workers_lost));
  page->AddCounter("tributary_lease_expiries_total",
                   "Leases of workers and servers that have expired since the "
                   "attempt began.",
                   static_cast<double>(job.lease_expiries));
  std::map<std::string, int> phases;
  for (const ProcessStatus& process : status.process()) {
    if (process.role() == "worker") {
      ++phases[process.phase().empty() ? "starting" : process.phase()];
    }
  }
  page->BeginGauge("tributary_workers_by_phase",
                   "Workers by what most of their threads do.");
  for (const auto& [phase, count] : phases) {
    page->Add(count, {{"phase", phase}});
  }
  page->BeginGauge("tributary_process_silent_seconds",
                   "Time since the last message of a process; it is lost when "
                   "its lease expires.");
  for (const ProcessStatus& process : status.process()) {
    if (process.silent_ms() < 0) continue;
    page->Add(
        1e-3 * static_cast<double>(process.silent_ms()),
        {{"role", process.role()}, {"number", absl::StrCat(process.number())}});
  }
  page->AddGauge("tributary_straggler_seconds",
                 "How long the other workers wait for the slowest one in a "
                 "step; 0: no straggler.",
                 1e-3 * status.waiting_milliseconds());
}

}  // namespace

void AddJobMetrics(const JobMetricsInputs& job, MetricsPage* page) {
  const StatusReply& status = job.status;
  page->BeginGauge("tributary_job_info",
                   "The job's model and its phase; always 1.");
  page->Add(1, {{"model", status.model()},
                {"phase", absl::AsciiStrToLower(
                              StatusReply::Phase_Name(status.phase()))}});
  AddProgress(status, page);
  page->BeginCounter("tributary_samples_total",
                     "Samples of all completed steps; text: tokens.");
  page->Add(static_cast<double>(job.sample_count), {{"unit", status.unit()}});
  page->AddHistogram("tributary_step_seconds",
                     "Time of a step, without the first steps of an attempt.",
                     job.step_seconds);
  AddProcesses(job, page);
  page->AddGauge("tributary_checkpoint_step",
                 "Step of the newest checkpoint; -1: none.",
                 static_cast<double>(status.checkpoint_step()));
  page->AddCounter("tributary_checkpoint_failures_total",
                   "Checkpoints that failed.",
                   static_cast<double>(status.checkpoint_failures()));
}

}  // namespace tributary
