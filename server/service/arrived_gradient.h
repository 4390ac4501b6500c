// Creates GradientSources for the gradients that a server receives as messages.
#ifndef TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
#define TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_

#include <memory>

#include "common/stream/received_floats.h"
#include "common/update/aggregation/gradient_source.h"

namespace tributary {

// Returns a source that keeps the received payload and decodes elements when
// they are read.
std::shared_ptr<const GradientSource> GradientFromWire(ReceivedFloats floats);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
