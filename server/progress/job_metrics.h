// The metrics of a job, for Prometheus.
#ifndef TRIBUTARY_SERVER_PROGRESS_JOB_METRICS_H_
#define TRIBUTARY_SERVER_PROGRESS_JOB_METRICS_H_

#include <cstdint>

#include "common/base/latency_histogram.h"
#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The values from which server 0 computes the metrics of the job that it
// publishes.
struct JobMetricsInputs {
  StatusReply status;
  // Seconds per step of this attempt; see StepTimes.
  LatencyHistogram step_seconds;
  // Number of training samples (for text, of tokens) in all completed steps.
  int64_t sample_count = 0;
  // Number of workers that this attempt has lost.
  int64_t workers_lost = 0;
  // Number of leases of workers and servers that have expired in this attempt.
  int64_t lease_expiries = 0;
};

// Adds the metrics that describe the job to `*page`: progress, losses, speed,
// processes and checkpoints. Server 0 serves these metrics. Omits values that
// are not known yet. Labels identify a worker by its rank.
void AddJobMetrics(const JobMetricsInputs& job, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_JOB_METRICS_H_
