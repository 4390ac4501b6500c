// The metrics of a process's traffic.
#ifndef TRIBUTARY_COMMON_METRICS_TRAFFIC_H_
#define TRIBUTARY_COMMON_METRICS_TRAFFIC_H_

#include "common/metrics/metrics_page.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Adds the bytes of gradients and weights that the process has sent and
// received on streams.
inline void AddTraffic(const ProcessStatistics& statistics, MetricsPage* page) {
  page->BeginCounter("tributary_payload_bytes_total",
                     "Bytes of gradients and weights on streams; bytes in "
                     "shared memory do not count.");
  page->Add(static_cast<double>(statistics.bytes_sent()),
            {{"direction", "sent"}});
  page->Add(static_cast<double>(statistics.bytes_received()),
            {{"direction", "received"}});
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_TRAFFIC_H_
