// The metrics of the bytes that a process sends and receives.
#ifndef TRIBUTARY_COMMON_METRICS_TRAFFIC_H_
#define TRIBUTARY_COMMON_METRICS_TRAFFIC_H_

#include <cstdint>
#include <optional>

#include "common/metrics/metrics_page.h"

namespace tributary {

// Bytes of gradients and weights that a process has sent and received.
struct Traffic {
  struct Bytes {
    int64_t sent = 0;
    int64_t received = 0;
  };
  Bytes streams;
  // Bytes of gradients and weights that were passed in memory that two
  // processes share, without being copied to a socket. nullopt if they are not
  // counted.
  std::optional<Bytes> shared_memory;
};

inline void AddTraffic(const Traffic& traffic, MetricsPage* page) {
  page->BeginCounter("tributary_payload_bytes_total",
                     "Bytes of gradients and weights, by direction and by "
                     "transport.");
  const auto add = [page](const char* transport, const Traffic::Bytes& bytes) {
    page->Add(static_cast<double>(bytes.sent),
              {{"direction", "sent"}, {"transport", transport}});
    page->Add(static_cast<double>(bytes.received),
              {{"direction", "received"}, {"transport", transport}});
  };
  add("stream", traffic.streams);
  if (traffic.shared_memory.has_value()) {
    add("shared_memory", *traffic.shared_memory);
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_TRAFFIC_H_
