// The metrics of a worker, for Prometheus.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_

#include <string>

#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nvml.h"

namespace tributary {

// Adds the families of the worker with this rank, from a heartbeat with
// statistics.
void AddWorkerMetrics(int rank, const Heartbeat& heartbeat, MetricsPage* page);

// Adds what NVIDIA's management library reports about a GPU.
void AddGpuMetrics(const GpuReport& gpu, MetricsPage* page);

// Adds the metrics of the GPU with this PCI address, in lower case. Adds
// nothing if the driver does not know the GPU.
void AddGpuMetrics(const std::string& bus_id, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
