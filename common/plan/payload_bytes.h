// Computes the size of a chunk on the wire.
#ifndef TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
#define TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Returns the size in bytes of the payload of one Contribution or one Weights
// message of `elements` numbers, in the encoding of `exchange`, which must be
// resolved. With TOP_K this is the requested size; the actual size may be
// slightly smaller.
int64_t ExpectedPayloadBytes(const ExchangeSpec& exchange, int64_t elements);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
