// The srun command that starts the agent of a node.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_SRUN_COMMAND_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_SRUN_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/flags/environment.h"
#include "deploy/launch/slurm/allocation.h"

namespace tributary {

// Returns the path of srun. Returns NotFound if it is not in PATH.
absl::StatusOr<std::string> FindSrun(const Environment& environment);

// Returns the arguments with which `srun` starts one task of `program
// node-agent` on `node`, concurrently with all other job steps of the Slurm
// job, and with all of the job's memory and devices on that node.
std::vector<std::string> SrunArguments(const std::string& srun,
                                       const AllocatedNode& node,
                                       const std::string& program);

// Returns `variables` (NAME=VALUE) without the variables that Slurm sets for
// the job's own tasks, because srun would also apply them to the job step that
// SrunArguments describes.
std::vector<std::string> SrunEnvironment(std::vector<std::string> variables);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_SRUN_COMMAND_H_
