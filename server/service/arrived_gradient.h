// Creates GradientSources for the gradients that a server receives.
#ifndef TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
#define TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_

#include <memory>

#include "common/numerics/half.h"
#include "common/stream/received_floats.h"
#include "server/store/aggregation/gradient_source.h"

namespace tributary {

// Returns a source that keeps the received payload and decodes elements when
// they are read.
std::shared_ptr<const GradientSource> GradientFromWire(ReceivedFloats floats);

// Returns a source for `values`, which are in memory that a worker shares.
// `owner` keeps this memory alive. The source rounds elements to `dtype`, the
// job's exchange.wire_dtype, when they are read, because workers do not round
// the gradients of single micro-batches in shared memory.
std::shared_ptr<const GradientSource> GradientAt(
    const float* values, WireDtype dtype, std::shared_ptr<const void> owner);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
