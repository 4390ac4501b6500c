// The metrics of one process.
#ifndef TRIBUTARY_COMMON_METRICS_METRICS_REGISTRY_H_
#define TRIBUTARY_COMMON_METRICS_METRICS_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/metrics/metrics_page.h"

namespace tributary {

// Holds callbacks (collectors) that report the metrics of a process. They are
// called only when the metrics are requested, so metrics cost nothing at other
// times. Thread-safe.
class MetricsRegistry {
 public:
  // Adds families of metrics to a page. Must not block for long, because
  // destroying any Registration waits for it, and must not call the registry.
  using Collector = std::function<void(MetricsPage*)>;

  // Keeps a collector registered. The destructor waits until no collector is
  // running. Movable.
  class Registration {
   public:
    Registration() = default;
    Registration(MetricsRegistry* registry, int64_t id)
        : registry_(registry), id_(id) {}
    ~Registration() { Remove(); }
    Registration(Registration&& other) noexcept { *this = std::move(other); }
    Registration& operator=(Registration&& other) noexcept {
      Remove();
      registry_ = std::exchange(other.registry_, nullptr);
      id_ = other.id_;
      return *this;
    }

   private:
    void Remove() {
      if (registry_ != nullptr) registry_->Remove(id_);
      registry_ = nullptr;
    }

    MetricsRegistry* registry_ = nullptr;
    int64_t id_ = 0;
  };

  // Registers a collector. No other collector may add the same families.
  // `registry` must outlive the result. If `registry` is null, registers
  // nothing and returns an empty Registration.
  static Registration Add(MetricsRegistry* registry, Collector collector);

  // Calls all collectors and returns the page with their metrics and with the
  // CPU time and the memory of the process.
  std::string Collect() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Remove(int64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  int64_t next_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Collector> collectors_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_METRICS_REGISTRY_H_
