// Convolutional network.
#ifndef TRIBUTARY_WORKER_MODELS_CNN_H_
#define TRIBUTARY_WORKER_MODELS_CNN_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds a convolutional network (LeCun et al., "Gradient-based learning
// applied to document recognition", 1998): images -> [convolution, activation,
// pool] for each block -> [dropout, linear, activation] for each hidden width
// -> dropout -> linear -> loss. Parameters: "blocks.<i>.convolution.weight" and
// "blocks.<i>.convolution.bias", followed by the parameters of BuildMlp (see
// mlp.h). Returns InvalidArgument, naming the field, if a field of model.cnn is
// invalid.
absl::StatusOr<Graph> BuildCnn(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_CNN_H_
