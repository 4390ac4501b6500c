// The metrics of a worker, for Prometheus.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_

#include <string>

#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nvml.h"

namespace tributary {

// Adds the metrics of the worker with this rank to `page`. `heartbeat` must
// contain the worker's statistics.
void AddWorkerMetrics(int rank, const Heartbeat& heartbeat, MetricsPage* page);

// Adds the metrics of a GPU to `page`. `gpu` contains what NVIDIA's management
// library (NVML) has reported.
void AddGpuMetrics(const GpuReport& gpu, MetricsPage* page);

// Adds the metrics of the GPU with the PCI address `bus_id` (in lower case) to
// `page`. Adds nothing if the driver does not know the GPU.
void AddGpuMetrics(const std::string& bus_id, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_METRICS_H_
