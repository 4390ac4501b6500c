// Lists of the models and data sets of a program: ModelRegistry and
// DataRegistry, with what their factories receive and return. tributary/main.h
// runs the program; tributary/nn.h has the layers.
#ifndef TRIBUTARY_REGISTRY_H_
#define TRIBUTARY_REGISTRY_H_

#include "common/job/config.h"
#include "worker/data/data_registry.h"
#include "worker/models/model_registry.h"

#endif  // TRIBUTARY_REGISTRY_H_
