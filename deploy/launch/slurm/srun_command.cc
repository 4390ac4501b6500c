#include "deploy/launch/slurm/srun_command.h"

#include <unistd.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tributary {
namespace {

// The beginnings of the names of these variables.
constexpr const char* kTaskVariables[] = {
    "SLURM_CPUS_PER_",      "SLURM_CPU_BIND",      "SLURM_DISTRIBUTION",
    "SLURM_EXACT",          "SLURM_EXCLUSIVE",     "SLURM_EXPORT_ENV",
    "SLURM_GPUS_PER_TASK",  "SLURM_GPU_BIND",      "SLURM_HINT",
    "SLURM_JOB_NUM_NODES",  "SLURM_KILL_BAD_EXIT", "SLURM_LABELIO",
    "SLURM_MEM_",           "SLURM_NNODES",        "SLURM_NPROCS",
    "SLURM_NTASKS",         "SLURM_OPEN_MODE",     "SLURM_SPREAD_JOB",
    "SLURM_STDERRMODE",     "SLURM_STDINMODE",     "SLURM_STDOUTMODE",
    "SLURM_TASKS_PER_NODE", "SLURM_THREADS",       "SLURM_UNBUFFEREDIO",
    "SLURM_WAIT",           "SRUN_CPUS_PER_TASK"};

}  // namespace

absl::StatusOr<std::string> FindSrun(const Environment& environment) {
  for (const absl::string_view folder :
       absl::StrSplit(environment("PATH").value_or(std::string()), ':')) {
    const std::string path = absl::StrCat(folder, "/srun");
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(
      "this is a Slurm allocation, but srun is not in PATH; add its folder to "
      "PATH, or train on this machine only with --launcher local");
}

std::vector<std::string> SrunArguments(const std::string& srun,
                                       const AllocatedNode& node,
                                       const std::string& program) {
  std::vector<std::string> arguments = {
      srun,         "--overlap",    "--nodes=1",
      "--ntasks=1", "--mem=0",      "--cpu-bind=none",
      "--mpi=none", "--export=ALL", absl::StrCat("--nodelist=", node.name)};
  if (node.het_group >= 0) {
    arguments.push_back(absl::StrCat("--het-group=", node.het_group));
  }
  arguments.insert(arguments.end(), {program, "node-agent"});
  return arguments;
}

std::vector<std::string> SrunEnvironment(std::vector<std::string> variables) {
  variables.erase(
      std::remove_if(variables.begin(), variables.end(),
                     [](const std::string& variable) {
                       return std::any_of(
                           std::begin(kTaskVariables), std::end(kTaskVariables),
                           [&variable](const char* name) {
                             return absl::StartsWith(variable, name);
                           });
                     }),
      variables.end());
  return variables;
}

}  // namespace tributary
