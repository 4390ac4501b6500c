// Gradients as they arrive at a server.
#ifndef TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
#define TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_

#include <memory>

#include "common/numerics/half.h"
#include "common/stream/received_floats.h"
#include "server/store/aggregation/gradient_source.h"

namespace tributary {

// One that lies in the messages it came in, and is decoded where it is read.
std::shared_ptr<const GradientSource> GradientFromWire(ReceivedFloats floats);

// One at `values` in memory that a worker shares, kept alive by `owner`. It is
// rounded to the job's `dtype` where it is read: workers write bare leaves
// there as they computed them.
std::shared_ptr<const GradientSource> GradientAt(
    const float* values, WireDtype dtype, std::shared_ptr<const void> owner);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ARRIVED_GRADIENT_H_
