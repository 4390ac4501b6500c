// How large a chunk is on the wire.
#ifndef TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
#define TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Bytes of the payload of one Contribution, or one Weights, of `elements`
// numbers, as `exchange` (resolved) says it is encoded. TOP_K: what is asked
// for; somewhat less may be sent.
int64_t ExpectedPayloadBytes(const ExchangeSpec& exchange, int64_t elements);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
