// The layers with which the stages of a job's pipeline may begin.
#ifndef TRIBUTARY_WORKER_MODELS_STAGES_STAGE_CUTS_H_
#define TRIBUTARY_WORKER_MODELS_STAGES_STAGE_CUTS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/nn/graph.h"

namespace tributary {

// The functions of this file require a graph whose status() is OK.

// Returns, for each layer, whether a stage may begin with it such that it and
// the stages around it have parameters, as a job requires.
std::vector<bool> CutsBetweenParameters(const Graph& graph);

// Returns the layers that the job names in parallel.pipeline.split: the first
// ones of all stages but the first, in ascending order. Empty if it names none.
// Returns InvalidArgument, naming the field and the layer, if there is no such
// layer, a stage cannot begin with it, or a stage has no parameters.
absl::StatusOr<std::vector<int>> NamedCuts(const PipelineSpec& spec,
                                           const Graph& graph);

// Returns InvalidArgument, naming the field of the job, if the network cannot
// be divided as the job says: the errors of NamedCuts, and if it has too few
// layers with parameters for the stages.
absl::Status CheckStages(const PipelineSpec& spec, const Graph& graph);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_STAGES_STAGE_CUTS_H_
