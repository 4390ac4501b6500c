#include "deploy/launch/slurm/allocation.h"

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment Of(Variables variables) {
  return [variables = std::move(variables)](
             const std::string& name) -> absl::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return absl::nullopt;
    return found->second;
  };
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables& Batch() {
  static const auto* const variables =
      new Variables{{"SLURM_JOB_ID", "4711"},
                    {"SLURM_JOB_NODELIST", "n[0-2]"},
                    {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                    {"SLURM_PROCID", "0"}};
  return *variables;
}

TEST(AllocationTest, ExistsInBatchScriptsAndShellsButNotInTasksOfSrun) {
  EXPECT_TRUE(InAllocation(Of(Batch())));
  EXPECT_FALSE(InAllocation(Of({})));
  EXPECT_FALSE(InAllocation(Of({{"SLURM_JOB_ID", "4711"}})));
  EXPECT_FALSE(InAllocation(Of(With(Batch(), {{"SLURM_STEP_ID", "0"}}))));
  EXPECT_FALSE(InAllocation(Of(With(Batch(), {{"SLURM_STEP_ID", "12"}}))));
  // The step of a shell that salloc starts on a node.
  EXPECT_TRUE(
      InAllocation(Of(With(Batch(), {{"SLURM_STEP_ID", "4294967290"}}))));
}

TEST(AllocationTest, HasTheTasksOfEachNode) {
  const auto allocation =
      ReadAllocation(Of(With(Batch(), {{"SLURM_CPUS_PER_TASK", "4"}})));
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  EXPECT_EQ(allocation->job_id, 4711);
  EXPECT_EQ(allocation->run_id, "4711");
  EXPECT_FALSE(allocation->requeued);
  EXPECT_FALSE(allocation->heterogeneous());
  ASSERT_EQ(allocation->nodes.size(), 3);
  EXPECT_EQ(allocation->nodes[1].name, "n1");
  EXPECT_EQ(allocation->nodes[1].tasks, 2);
  EXPECT_EQ(allocation->nodes[2].tasks, 1);
  EXPECT_EQ(allocation->nodes[2].cpus_per_task, 4);
}

TEST(AllocationTest, HasOneTaskPerNodeIfNothingElseIsStated) {
  const auto allocation = ReadAllocation(
      Of({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "a,b"}}));
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  ASSERT_EQ(allocation->nodes.size(), 2);
  EXPECT_EQ(allocation->nodes[0].tasks, 1);
  EXPECT_EQ(allocation->nodes[0].cpus_per_task, 0);
}

TEST(AllocationTest, KnowsArraysAndRequeues) {
  const auto allocation =
      ReadAllocation(Of(With(Batch(), {{"SLURM_ARRAY_JOB_ID", "4700"},
                                       {"SLURM_ARRAY_TASK_ID", "3"},
                                       {"SLURM_RESTART_COUNT", "1"}})));
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  EXPECT_EQ(allocation->run_id, "4700_3");
  EXPECT_TRUE(allocation->requeued);
}

TEST(AllocationTest, HasTheComponentsOfAHeterogeneousJob) {
  const auto allocation = ReadAllocation(
      Of(With(Batch(), {{"SLURM_HET_SIZE", "2"},
                        {"SLURM_JOB_NODELIST_HET_GROUP_0", "cpu[0-1]"},
                        {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "1(x2)"},
                        {"SLURM_JOB_NODELIST_HET_GROUP_1", "gpu0"},
                        {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "4"},
                        {"SLURM_CPUS_PER_TASK_HET_GROUP_1", "8"}})));
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  EXPECT_TRUE(allocation->heterogeneous());
  ASSERT_EQ(allocation->nodes.size(), 3);
  EXPECT_EQ(allocation->nodes[1].name, "cpu1");
  EXPECT_EQ(allocation->nodes[1].het_group, 0);
  EXPECT_EQ(allocation->nodes[2].het_group, 1);
  EXPECT_EQ(allocation->nodes[2].tasks, 4);
  EXPECT_EQ(allocation->nodes[2].cpus_per_task, 8);
}

TEST(AllocationTest, NamesTheVariableThatIsMalformed) {
  for (const auto& [name, value] : Variables{{"SLURM_JOB_ID", "x"},
                                             {"SLURM_JOB_NODELIST", "n[0-"},
                                             {"SLURM_TASKS_PER_NODE", "2(x2"},
                                             {"SLURM_CPUS_PER_TASK", "-1"},
                                             {"SLURM_RESTART_COUNT", "one"},
                                             {"SLURM_HET_SIZE", "1000"}}) {
    EXPECT_THAT(ReadAllocation(Of(With(Batch(), {{name, value}}))).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("environment variable " + name)));
  }
  EXPECT_THAT(
      ReadAllocation(Of(With(Batch(), {{"SLURM_TASKS_PER_NODE", "1(x4)"}})))
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("is for 4 nodes"), HasSubstr("has 3"))));
}

}  // namespace
}  // namespace tributary
