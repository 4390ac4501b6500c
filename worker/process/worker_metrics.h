// The metrics of a worker, for Prometheus.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_

#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Adds the families of the worker with this rank, from a heartbeat with
// statistics.
void AddWorkerMetrics(int rank, const Heartbeat& heartbeat, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
