#include "deploy/launch/slurm/allocation.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "deploy/launch/slurm/node_list.h"

namespace tributary {
namespace {

// The steps of batch scripts, and of shells that salloc starts on a node, have
// numbers above all steps of srun (SLURM_MAX_NORMAL_STEP_ID).
constexpr int64_t kMaxStepOfSrun = 0xfffffff0 - 16;
constexpr int64_t kMaxHetGroups = 128;

std::string Get(const Environment& environment, const std::string& name) {
  return environment(name).value_or(std::string());
}

// Returns the number in the variable, or `missing` if it is not set.
absl::StatusOr<int64_t> ReadNumber(const Environment& environment,
                                   const std::string& name, int64_t missing) {
  const std::string text = Get(environment, name);
  if (text.empty()) return missing;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0 ||
      number > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable ", name, " is '", text,
                     "', expected a number; to train on this machine only, add "
                     "--launcher local"));
  }
  return number;
}

absl::Status WithVariable(const std::string& name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("environment variable ", name, ": ", status.message(),
                   "; to train on this machine only, add --launcher local"));
}

// Appends the nodes of the job, or of the component whose variables end with
// `suffix`.
absl::Status AppendNodes(const Environment& environment,
                         const std::string& suffix, int het_group,
                         std::vector<AllocatedNode>* nodes) {
  const std::string list_name = absl::StrCat("SLURM_JOB_NODELIST", suffix);
  const auto names = ExpandNodeList(Get(environment, list_name));
  TRIBUTARY_RETURN_IF_ERROR(WithVariable(list_name, names.status()));
  std::vector<int> tasks(names->size(), 1);
  const std::string tasks_name = absl::StrCat("SLURM_TASKS_PER_NODE", suffix);
  const std::string tasks_text = Get(environment, tasks_name);
  if (!tasks_text.empty()) {
    const auto counts = ExpandNodeCounts(tasks_text);
    TRIBUTARY_RETURN_IF_ERROR(WithVariable(tasks_name, counts.status()));
    if (counts->size() != names->size()) {
      return WithVariable(
          tasks_name, absl::InvalidArgumentError(absl::StrCat(
                          "'", tasks_text, "' is for ", counts->size(),
                          " nodes, but ", list_name, " has ", names->size())));
    }
    tasks = *counts;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const int64_t cpus,
      ReadNumber(environment, absl::StrCat("SLURM_CPUS_PER_TASK", suffix), 0));
  for (size_t i = 0; i < names->size(); ++i) {
    nodes->push_back(
        {(*names)[i], tasks[i], static_cast<int>(cpus), het_group});
  }
  return absl::OkStatus();
}

}  // namespace

bool InAllocation(const Environment& environment) {
  if (Get(environment, "SLURM_JOB_ID").empty() ||
      Get(environment, "SLURM_JOB_NODELIST").empty()) {
    return false;
  }
  int64_t step = 0;
  return !absl::SimpleAtoi(Get(environment, "SLURM_STEP_ID"), &step) ||
         step > kMaxStepOfSrun;
}

absl::StatusOr<Allocation> ReadAllocation(const Environment& environment) {
  Allocation allocation;
  TRIBUTARY_ASSIGN_OR_RETURN(allocation.job_id,
                             ReadNumber(environment, "SLURM_JOB_ID", 0));
  allocation.run_id = absl::StrCat(allocation.job_id);
  const std::string array = Get(environment, "SLURM_ARRAY_JOB_ID");
  const std::string task = Get(environment, "SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(
        ReadNumber(environment, "SLURM_ARRAY_JOB_ID", 0).status());
    TRIBUTARY_RETURN_IF_ERROR(
        ReadNumber(environment, "SLURM_ARRAY_TASK_ID", 0).status());
    allocation.run_id = absl::StrCat(array, "_", task);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t restarts,
                             ReadNumber(environment, "SLURM_RESTART_COUNT", 0));
  allocation.requeued = restarts > 0;
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t groups,
                             ReadNumber(environment, "SLURM_HET_SIZE", 0));
  if (groups > kMaxHetGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable SLURM_HET_SIZE is ", groups,
                     ", expected at most ", kMaxHetGroups));
  }
  if (groups == 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        AppendNodes(environment, "", -1, &allocation.nodes));
  }
  for (int group = 0; group < groups; ++group) {
    TRIBUTARY_RETURN_IF_ERROR(AppendNodes(environment,
                                          absl::StrCat("_HET_GROUP_", group),
                                          group, &allocation.nodes));
  }
  return allocation;
}

}  // namespace tributary
