// ModelRegistry and DataRegistry, the lists of the models and data sets of a
// program, and the types that their factories use. tributary/main.h runs a
// program with such lists; tributary/nn.h declares the layers.
#ifndef TRIBUTARY_REGISTRY_H_
#define TRIBUTARY_REGISTRY_H_

#include "common/job/config.h"
#include "worker/data/data_registry.h"
#include "worker/models/model_registry.h"

#endif  // TRIBUTARY_REGISTRY_H_
