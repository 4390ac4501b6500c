#include "common/metrics/metrics_registry.h"

#include <utility>

#include "common/os/process.h"

namespace tributary {

MetricsRegistry::Registration MetricsRegistry::Add(MetricsRegistry* registry,
                                                   Collector collector) {
  if (registry == nullptr) return Registration();
  absl::MutexLock lock(&registry->mu_);
  const int64_t id = registry->next_id_++;
  registry->collectors_[id] = std::move(collector);
  return Registration(registry, id);
}

void MetricsRegistry::Remove(int64_t id) {
  absl::MutexLock lock(&mu_);
  collectors_.erase(id);
}

std::string MetricsRegistry::Collect() {
  MetricsPage page;
  page.AddCounter("process_cpu_seconds_total",
                  "CPU time of all threads of the process.", CpuSeconds());
  page.AddGauge("process_resident_memory_bytes", "Resident memory.",
                static_cast<double>(MemoryBytes()));
  absl::MutexLock lock(&mu_);
  for (const auto& [id, collect] : collectors_) collect(&page);
  return page.text();
}

}  // namespace tributary
