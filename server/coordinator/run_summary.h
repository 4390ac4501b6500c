// The contents of summary.json.
#ifndef TRIBUTARY_SERVER_COORDINATOR_RUN_SUMMARY_H_
#define TRIBUTARY_SERVER_COORDINATOR_RUN_SUMMARY_H_

#include <string>

#include "server/coordinator/attempt.h"

namespace tributary {

// Returns the text of summary.json. At the top level, `seconds` is
// JobTotals::seconds; the other fields in seconds (compute_seconds, ...) and
// in bytes are sums over the workers. Times are wall time, except cpu_seconds.
// exchange_seconds includes waiting_seconds. Latencies cover all chunks and
// workers.
// `weights_sha256` is the digest of the final model; empty if there is none.
std::string SummaryJson(const Attempt& attempt,
                        const std::string& weights_sha256);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_RUN_SUMMARY_H_
