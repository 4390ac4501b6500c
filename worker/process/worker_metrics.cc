#include "worker/process/worker_metrics.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/metrics/histogram.h"
#include "common/metrics/traffic.h"

namespace tributary {
namespace {

// Returns the lower bound of an interval of DurationCounts, in nanoseconds.
double LowerBound(int interval) {
  if (interval < 16) return interval;
  const int doublings = interval / 8 - 1;
  return std::ldexp(8 + interval % 8, doublings);
}

// Takes each duration as the middle of its interval, whose width is at most an
// eighth of it.
Histogram SecondsOf(const DurationCounts& counts) {
  Histogram seconds;
  for (int i = 0; i < counts.count_size(); ++i) {
    if (counts.count(i) == 0) continue;
    seconds.Add(0.5e-9 * (LowerBound(i) + LowerBound(i + 1)), counts.count(i));
  }
  return seconds;
}

}  // namespace

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
  AddTraffic(statistics, page);
  page->AddHistogram("tributary_chunk_latency_seconds",
                     "Time from sending the gradient of a chunk until the "
                     "chunk's next version has arrived.",
                     SecondsOf(statistics.chunk_latency()));
}

}  // namespace tributary
