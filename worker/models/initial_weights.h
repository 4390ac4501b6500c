// Reads the initial weights of a job from files; see InitialWeightsSpec.
#ifndef TRIBUTARY_WORKER_MODELS_INITIAL_WEIGHTS_H_
#define TRIBUTARY_WORKER_MODELS_INITIAL_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Replaces the values of the parameters in `weights`, a buffer in host memory
// that `layout` lays out, by those of the files that `spec` names. A tensor of
// a file belongs to the parameter of the same name. If spec.strict() is false,
// parameters without a tensor keep their values. Skips the counter
// num_batches_tracked of PyTorch's batch norm.
//
// For GPT-2 as Hugging Face stores it, the prefix "transformer." may be absent,
// and the matrices of Conv1D layers, [inputs, outputs], are transposed. The
// masks of attention are skipped, and so is a head that repeats the weights of
// the embedding.
//
// For BERT, the prefix "bert." may be absent, and layer norms may have the old
// names "gamma" and "beta". These tensors are skipped: position_ids,
// cls.predictions.decoder (a copy of tied weights), cls.seq_relationship, and
// the tensors of the head that the model does not have, which are `pooler` for
// a masked language model and `cls` for a classifier.
//
// Returns InvalidArgument, naming the parameters or tensors and the file, if a
// tensor has the wrong shape or type, or if no tensor belongs to a parameter.
// If spec.strict() is true, also returns it if any parameter has no tensor, or
// if a tensor neither belongs to a parameter nor is skipped. Also returns the
// errors of TensorFiles. `weights` is unspecified after an error. Blocks on the
// disk.
absl::Status LoadInitialWeights(const InitialWeightsSpec& spec,
                                const ArenaLayout& layout, float* weights);

// Returns InvalidArgument, naming the field and the file, if the files that
// `spec` names are damaged, and NotFound if they do not exist. Reads the files
// if they contain a digest. Blocks on the disk.
absl::Status CheckInitialWeights(const InitialWeightsSpec& spec);

// Returns the positions in `table`, in ascending order, of the parameters whose
// name matches one of `patterns`, in the syntax of fnmatch: `*` stands for any
// characters. Returns InvalidArgument, naming the pattern and `field`, the
// field of the job that contains the patterns, if a pattern matches no
// parameter.
absl::StatusOr<std::vector<int>> MatchParameters(
    const std::string& field, const std::vector<std::string>& patterns,
    const ParameterTable& table);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_INITIAL_WEIGHTS_H_
