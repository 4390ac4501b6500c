// The metrics of a job, for Prometheus.
#ifndef TRIBUTARY_SERVER_COORDINATOR_JOB_METRICS_H_
#define TRIBUTARY_SERVER_COORDINATOR_JOB_METRICS_H_

#include <cstdint>

#include "common/metrics/histogram.h"
#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// What a job's metrics show in addition to its status.
struct JobMetrics {
  StatusReply status;
  // Seconds per step of this attempt, as JobProgress::step_seconds.
  Histogram step_seconds;
  // Samples (text: tokens) of all completed steps.
  int64_t sample_count = 0;
  // Number of workers that this attempt has lost.
  int64_t workers_lost = 0;
  // Number of leases of workers and servers that have expired in this attempt.
  int64_t lease_expiries = 0;
};

// Adds the families of server 0 that describe the job: progress, losses, speed,
// processes, checkpoints. Leaves out what is not known yet. The status of a
// worker is named by its rank.
void AddJobMetrics(const JobMetrics& job, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_JOB_METRICS_H_
