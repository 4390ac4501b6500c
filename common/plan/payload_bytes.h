// Computes the size of a chunk on the wire.
#ifndef TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
#define TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Returns the size in bytes of the payload of one Contribution (a gradient sum)
// or one Weights message of `elements` numbers, in the encoding that `exchange`
// selects. `exchange` must belong to a job that ResolveJob has returned. With
// TOP_K, assumes that the requested fraction of the elements is sent; actual
// payloads may be slightly smaller.
int64_t ExpectedPayloadBytes(const ExchangeSpec& exchange, int64_t elements);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_PAYLOAD_BYTES_H_
