// Builds the networks that a user's program has registered.
#ifndef TRIBUTARY_WORKER_MODELS_REGISTERED_MODEL_H_
#define TRIBUTARY_WORKER_MODELS_REGISTERED_MODEL_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/models/model_registry.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds the network that `spec` names. Returns InvalidArgument, naming the
// job's field, if the program has not registered the network, if the network's
// configuration is invalid, or if the network does not suit the data. Also
// returns the error of the network's factory.
absl::StatusOr<Graph> BuildRegisteredModel(const ExternalModelSpec& spec,
                                           const DataInfo& info,
                                           const ModelRegistry& registered);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_REGISTERED_MODEL_H_
