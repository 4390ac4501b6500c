#include "common/base/limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {

Limits ForWorkers(int workers) {
  // Membership and exchange take one connection each, and twice that while a
  // worker is replaced. The remainder is for status queries.
  constexpr int kConnectionsPerWorker = 4;
  constexpr int kOthers = 64;
  Limits limits;
  limits.workers = std::max(limits.workers, 2 * workers);
  limits.connections_per_peer = std::max(
      limits.connections_per_peer, kConnectionsPerWorker * workers + kOthers);
  // Workers may all connect at the same time, and again if that takes too long.
  limits.new_connections_per_peer = std::max(limits.new_connections_per_peer,
                                             kConnectionsPerWorker * workers);
  limits.connections =
      std::max(limits.connections, 2 * limits.connections_per_peer);
  return limits;
}

std::string DescribeLimits(const Limits& limits) {
  return absl::StrCat(
      "connections ", limits.connections, ", of one address ",
      limits.connections_per_peer, ", new ones ",
      limits.new_connections_per_peer, " of one address and ",
      limits.new_connections_per_second, " a second, calls on each ",
      limits.streams_per_connection, ", handshake ",
      absl::FormatDuration(limits.handshake_timeout), ", idle ",
      absl::FormatDuration(limits.idle_timeout), ", keepalive ",
      absl::FormatDuration(limits.keepalive_interval), " + ",
      absl::FormatDuration(limits.keepalive_timeout), ", pings at most every ",
      absl::FormatDuration(limits.min_ping_interval), ", message ",
      limits.message_bytes, " bytes, metadata ", limits.metadata_bytes,
      " bytes, workers ", limits.workers, ", parameters ", limits.parameters,
      " of ", limits.name_bytes, " bytes' names, ", limits.dimensions,
      " dimensions and ", limits.elements, " elements in all, texts ",
      limits.text_bytes, " bytes, submessages ", limits.submessages,
      ", nesting depth ", limits.nesting_depth);
}

}  // namespace tributary
