#include "deploy/flags/environment.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/local_host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

Environment Fake(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> absl::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return absl::nullopt;
    return found->second;
  };
}

LauncherEnvironment Read(std::map<std::string, std::string> variables) {
  const absl::StatusOr<LauncherEnvironment> found =
      ReadLauncherEnvironment(Fake(std::move(variables)));
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : LauncherEnvironment();
}

TEST(EnvironmentTest, FindsNothingInAnEmptyEnvironment) {
  const LauncherEnvironment found = Read({});
  EXPECT_FALSE(found.rank.has_value());
  EXPECT_FALSE(found.world_size.has_value());
  EXPECT_EQ(found.Coordinator(), "127.0.0.1:29400");
}

TEST(EnvironmentTest, ReadsTorchrun) {
  const LauncherEnvironment found = Read({{"RANK", "3"},
                                          {"WORLD_SIZE", "8"},
                                          {"LOCAL_RANK", "1"},
                                          {"LOCAL_WORLD_SIZE", "2"},
                                          {"MASTER_ADDR", "node7"},
                                          {"MASTER_PORT", "1234"}});
  EXPECT_EQ(found.rank->value, 3);
  EXPECT_EQ(found.rank->variable, "RANK");
  EXPECT_EQ(found.world_size->value, 8);
  EXPECT_EQ(found.local_rank->value, 1);
  EXPECT_EQ(found.local_world_size->value, 2);
  EXPECT_EQ(found.Coordinator(), "node7:1234");
}

TEST(EnvironmentTest, ReadsTrainJob) {
  const LauncherEnvironment found = Read({{"PET_NNODES", "4"},
                                          {"PET_NPROC_PER_NODE", "6"},
                                          {"PET_NODE_RANK", "3"},
                                          {"PET_MASTER_ADDR", "job-node-0-0"},
                                          {"PET_MASTER_PORT", "29500"},
                                          {"JOB_COMPLETION_INDEX", "2"}});
  EXPECT_EQ(found.world_size->value, 4);
  EXPECT_EQ(found.world_size->variable, "PET_NNODES");
  EXPECT_EQ(found.rank->value, 3);
  EXPECT_EQ(found.rank->variable, "PET_NODE_RANK");
  EXPECT_EQ(found.threads->value, 6);
  EXPECT_FALSE(found.local_rank.has_value());
  EXPECT_FALSE(found.local_world_size.has_value());
  EXPECT_EQ(found.completion_index->value, 2);
  EXPECT_EQ(found.Coordinator(), "job-node-0-0:29500");
}

TEST(EnvironmentTest, ReadsTheFewestNodesOfAnElasticTrainJob) {
  const LauncherEnvironment found =
      Read({{"PET_NNODES", "2:8"}, {"PET_NPROC_PER_NODE", "auto"}});
  EXPECT_EQ(found.world_size->value, 2);
  EXPECT_FALSE(found.threads.has_value());
}

TEST(EnvironmentTest, TorchrunReplacesWhatATrainJobGaveIt) {
  const LauncherEnvironment found = Read({{"RANK", "5"},
                                          {"WORLD_SIZE", "8"},
                                          {"LOCAL_RANK", "1"},
                                          {"LOCAL_WORLD_SIZE", "4"},
                                          {"MASTER_ADDR", "a"},
                                          {"MASTER_PORT", "1"},
                                          {"PET_NNODES", "2"},
                                          {"PET_NPROC_PER_NODE", "4"},
                                          {"PET_NODE_RANK", "1"},
                                          {"PET_MASTER_ADDR", "b"},
                                          {"PET_MASTER_PORT", "2"}});
  EXPECT_EQ(found.rank->value, 5);
  EXPECT_EQ(found.world_size->value, 8);
  EXPECT_FALSE(found.threads.has_value());
  EXPECT_EQ(found.Coordinator(), "a:1");
}

TEST(EnvironmentTest, TakesTheRankFromAnIndexedJob) {
  const LauncherEnvironment found = Read({{"JOB_COMPLETION_INDEX", "7"}});
  EXPECT_EQ(found.rank->value, 7);
  EXPECT_EQ(found.rank->variable, "JOB_COMPLETION_INDEX");
  EXPECT_EQ(found.completion_index->value, 7);
}

// The index of a server's pod is not the rank of a worker.
TEST(EnvironmentTest, AllowsMoreServersThanWorkers) {
  const LauncherEnvironment found = Read({{"PET_NNODES", "1"},
                                          {"PET_NODE_RANK", "2"},
                                          {"JOB_COMPLETION_INDEX", "2"}});
  EXPECT_EQ(found.world_size->value, 1);
  EXPECT_EQ(found.completion_index->value, 2);
}

TEST(EnvironmentTest, ReadsSlurm) {
  const LauncherEnvironment found = Read({{"SLURM_PROCID", "5"},
                                          {"SLURM_NTASKS", "6"},
                                          {"SLURM_LOCALID", "2"},
                                          {"SLURM_JOB_NAME", "train"}});
  EXPECT_EQ(found.rank->value, 5);
  EXPECT_EQ(found.rank->variable, "SLURM_PROCID");
  EXPECT_EQ(found.world_size->variable, "SLURM_NTASKS");
  EXPECT_EQ(found.local_rank->value, 2);
}

TEST(EnvironmentTest, PassesOverAnInteractiveShellOfSlurm) {
  const LauncherEnvironment found = Read({{"SLURM_PROCID", "0"},
                                          {"SLURM_NTASKS", "6"},
                                          {"SLURM_JOB_NAME", "bash"},
                                          {"OMPI_COMM_WORLD_RANK", "4"}});
  EXPECT_EQ(found.rank->value, 4);
  EXPECT_FALSE(found.world_size.has_value());
}

TEST(EnvironmentTest, ReadsOpenMpi) {
  const LauncherEnvironment found = Read({{"OMPI_COMM_WORLD_RANK", "1"},
                                          {"OMPI_COMM_WORLD_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(found.rank->variable, "OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(found.world_size->value, 2);
  EXPECT_EQ(found.local_rank->value, 0);
  EXPECT_EQ(found.local_world_size->value, 2);
}

TEST(EnvironmentTest, PrefersTorchrunToSlurm) {
  const LauncherEnvironment found =
      Read({{"SLURM_PROCID", "5"}, {"RANK", "1"}});
  EXPECT_EQ(found.rank->value, 1);
}

TEST(EnvironmentTest, TakesAnEmptyVariableForUnset) {
  EXPECT_FALSE(Read({{"RANK", ""}}).rank.has_value());
}

TEST(EnvironmentTest, NamesAWrongVariable) {
  for (const auto& [variable, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"RANK", "three"},
           {"RANK", "-1"},
           {"RANK", "1.5"},
           {"RANK", "99999999999999999999"},
           {"WORLD_SIZE", "0"},
           {"SLURM_NTASKS", "4x"},
           {"OMPI_COMM_WORLD_RANK", "a"},
           {"MASTER_PORT", "70000"},
           {"PET_NNODES", "many"},
           {"PET_NODE_RANK", "many"},
           {"PET_MASTER_PORT", "many"},
           {"JOB_COMPLETION_INDEX", "many"}}) {
    EXPECT_THAT(
        ReadLauncherEnvironment(Fake({{variable, value}})),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat(variable, " is '", value, "'"))));
  }
  EXPECT_THAT(
      ReadLauncherEnvironment(Fake({{"RANK", "8"}, {"WORLD_SIZE", "8"}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("RANK is 8, expected less than WORLD_SIZE (8)")));
}

TEST(HostPortTest, ReadsNamesAndAddresses) {
  const absl::StatusOr<HostPort> name = ParseHostPort("node1:29400");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->host, "node1");
  EXPECT_EQ(name->port, 29400);
  const absl::StatusOr<HostPort> v6 = ParseHostPort("[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(JoinHostPort(v6->host, 7), "[::1]:7");
}

TEST(HostPortTest, RefusesOtherTexts) {
  for (const char* text : {"", "node1", ":80", "node1:", "node1:http",
                           "node1:-1", "node1:65536", "::1:80", "[]:80"}) {
    EXPECT_THAT(
        ParseHostPort(text),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << text;
  }
}

TEST(HostPortTest, KnowsLoopback) {
  for (const char* host : {"127.0.0.1", "127.8.9.1", "localhost", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "node1", "",
                           "127.0.0.1.example.com", "localhost.example.com"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace tributary
