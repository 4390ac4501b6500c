#include "worker/process/worker_metrics.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/latency_histogram.h"
#include "common/metrics/traffic.h"

namespace tributary {
void AddWorkerMetrics(int rank, const Heartbeat& heartbeat, MetricsPage* page) {
  const ProcessStatistics& statistics = heartbeat.statistics();
  page->BeginGauge("tributary_worker_info",
                   "The worker's rank, and what most of its threads do; always "
                   "1.");
  page->Add(1, {{"rank", absl::StrCat(rank)}, {"phase", heartbeat.phase()}});
  page->AddGauge("tributary_worker_step",
                 "The step that the worker computes or waits for.",
                 static_cast<double>(heartbeat.step()));
  page->AddCounter("tributary_worker_micro_batches_total",
                   "Micro-batches computed.",
                   static_cast<double>(statistics.leaves()));
  page->BeginCounter("tributary_worker_seconds_total",
                     "Wall-clock time by activity: forward, backward, waiting "
                     "for new weights (exchange), waiting for samples (data), "
                     "evaluation.");
  page->Add(statistics.forward_seconds(), {{"activity", "forward"}});
  page->Add(statistics.backward_seconds(), {{"activity", "backward"}});
  page->Add(statistics.exchange_seconds(), {{"activity", "exchange"}});
  page->Add(statistics.data_seconds(), {{"activity", "data"}});
  page->Add(statistics.evaluation_seconds(), {{"activity", "evaluation"}});
  Traffic traffic;
  traffic.streams = {statistics.bytes_sent(), statistics.bytes_received()};
  traffic.shared_memory = {statistics.shared_bytes_sent(),
                           statistics.shared_bytes_received()};
  AddTraffic(traffic, page);
  page->AddHistogram("tributary_chunk_latency_seconds",
                     "Time from sending the gradient of a chunk until the "
                     "chunk's next version has arrived.",
                     LatencyHistogram(statistics.chunk_latency()));
}

void AddGpuMetrics(const GpuReport& gpu, MetricsPage* page) {
  page->BeginGauge("tributary_gpu_info",
                   "The GPU that the process computes on; always 1.");
  page->Add(1, {{"bus_id", gpu.bus_id}, {"name", gpu.name}});
  page->AddGauge("tributary_gpu_memory_bytes", "Memory of the GPU.",
                 static_cast<double>(gpu.memory_bytes));
  page->AddGauge("tributary_gpu_memory_used_bytes",
                 "Memory of the GPU that all processes use together.",
                 static_cast<double>(gpu.used_bytes));
  if (gpu.utilization_percent.has_value()) {
    page->AddGauge("tributary_gpu_utilization_ratio",
                   "Fraction of the last second in which the GPU computed, for "
                   "any process.",
                   0.01 * *gpu.utilization_percent);
  }
}

void AddGpuMetrics(const std::string& bus_id, MetricsPage* page) {
  const absl::StatusOr<const Nvml*> nvml = LoadNvml();
  if (!nvml.ok()) return;
  const absl::StatusOr<std::vector<GpuReport>> gpus = ReadGpus(**nvml);
  if (!gpus.ok()) return;
  for (const GpuReport& gpu : *gpus) {
    if (gpu.bus_id == bus_id) AddGpuMetrics(gpu, page);
  }
}

}  // namespace tributary
