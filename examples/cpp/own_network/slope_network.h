// A network with a layer and, if the job asks for it, a loss of its own.
#ifndef OWN_NETWORK_SLOPE_NETWORK_H_
#define OWN_NETWORK_SLOPE_NETWORK_H_

#include "absl/status/statusor.h"
#include "tributary/nn.h"
#include "tributary/registry.h"

// Builds linear layers, each followed by a Slope, then the logits of the
// classes. Reads the members "hidden" (the widths of the hidden layers) and
// "focus" (of FocalLoss; 0 stands for softmax cross-entropy) of the job's
// model.external.config.
absl::StatusOr<tributary::Graph> BuildSlopeNetwork(
    tributary::Config* config, const tributary::DataInfo& data);

#endif  // OWN_NETWORK_SLOPE_NETWORK_H_
