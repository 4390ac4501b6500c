// Prints the plan of a pipeline.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_REPORT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_REPORT_H_

#include <string>

#include "deploy/launch/plan/pipeline_inputs.h"
#include "deploy/launch/plan/pipeline_plan.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Formats the plan as tables, with lines of at most 100 columns unless layers
// have long names.
std::string FormatPipelinePlan(const PipelineInputs& inputs,
                               const PipelinePlan& plan);

// Returns the figures of the plan as JSON, for scripts.
nlohmann::ordered_json PipelinePlanJson(const PipelineInputs& inputs,
                                        const PipelinePlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_PIPELINE_REPORT_H_
