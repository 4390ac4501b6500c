// With recovery.journal, servers fail one after the other at critical points,
// and no completed step is computed again. There are no checkpoints.
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_matrix.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

constexpr char kReplicaProgram[] = "tests/faults/tributary_with_failpoints";

FaultCase Case(const std::string& point, int64_t seed, int servers) {
  FaultCase fault;
  fault.program = kReplicaProgram;
  fault.point = point;
  fault.seed = seed;
  fault.replicas = true;
  fault.servers = servers;
  return fault;
}

std::string UndisturbedDigest(int64_t seed) {
  static auto* const digests = new std::map<int64_t, std::string>();
  if (digests->count(seed) > 0) return digests->at(seed);
  FaultCase undisturbed;
  undisturbed.program = kReplicaProgram;
  undisturbed.seed = seed;
  const FaultResult result = RunFault(undisturbed, MakeTestFolder());
  EXPECT_TRUE(result.status.ok()) << result.status;
  return (*digests)[seed] = result.weights_sha256;
}

// Parameters: failpoint, seed (which determines the victim), number of servers.
class ReplicaTest
    : public testing::TestWithParam<std::tuple<std::string, int64_t, int>> {};

std::string NameOf(const testing::TestParamInfo<ReplicaTest::ParamType>& info) {
  return absl::StrCat(std::get<0>(info.param), "_seed_",
                      std::get<1>(info.param));
}

TEST_P(ReplicaTest, ACrashCostsNoStep) {
  const auto& [point, seed, servers] = GetParam();
  const FaultResult result =
      RunFault(Case(point, seed, servers), MakeTestFolder());
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, 1);
  EXPECT_GE(result.restarts, 1);
  EXPECT_EQ(result.steps_again, 0);
  EXPECT_EQ(result.weights_sha256, UndisturbedDigest(seed));
}

// Before and after a sum is known, during an update, before and after its
// weights are published, when a replica has arrived, and when it is stored.
INSTANTIATE_TEST_SUITE_P(
    Two, ReplicaTest,
    testing::Combine(testing::Values("S5", "S7", "S8", "S10", "J1", "J2"),
                     testing::Values(1, 2), testing::Values(2)),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Three, ReplicaTest,
                         testing::Combine(testing::Values("S8", "S10"),
                                          testing::Values(1, 2),
                                          testing::Values(3)),
                         NameOf);

FaultCase TablesCase(const std::string& point, int64_t seed, int servers,
                     int fixed_lag, bool disk) {
  FaultCase fault = Case(point, seed, servers);
  fault.model = "tables";
  fault.fixed_lag = fixed_lag;
  fault.disk = disk;
  return fault;
}

// Parameters: failpoint, seed, number of servers, fixed_lag, disk.
class TablesReplicaTest
    : public testing::TestWithParam<
          std::tuple<std::string, int64_t, int, int, bool>> {};

// A server holds rows as well: those that it loses come from the replica, and
// the other servers take back a step that the lost one has not done.
TEST_P(TablesReplicaTest, ACrashCostsNoStep) {
  const auto& [point, seed, servers, fixed_lag, disk] = GetParam();
  const std::string folder = MakeTestFolder();
  const FaultResult undisturbed =
      RunFault(TablesCase("", seed, servers, fixed_lag, disk), folder);
  EXPECT_TRUE(undisturbed.status.ok()) << undisturbed.status;
  EXPECT_NE(undisturbed.rows_sha256, "");
  const FaultResult result =
      RunFault(TablesCase(point, seed, servers, fixed_lag, disk), folder);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, 1);
  EXPECT_GE(result.restarts, 1);
  EXPECT_EQ(result.steps_again, 0);
  EXPECT_EQ(result.weights_sha256, undisturbed.weights_sha256);
  EXPECT_EQ(result.rows_sha256, undisturbed.rows_sha256);
}

INSTANTIATE_TEST_SUITE_P(, TablesReplicaTest,
                         testing::Values(std::make_tuple("S5", 1, 2, 0, false),
                                         std::make_tuple("S7", 2, 2, 1, true),
                                         std::make_tuple("S10", 1, 3, 1, false),
                                         std::make_tuple("S10", 2, 2, 0, true),
                                         std::make_tuple("J1", 1, 2, 1, false),
                                         std::make_tuple("J1", 2, 3, 0, true),
                                         std::make_tuple("J2", 1, 2, 0, true),
                                         std::make_tuple("J2", 2, 3, 1, false)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param),
                                               "_seed_",
                                               std::get<1>(info.param), "_lag_",
                                               std::get<3>(info.param));
                         });

// The server fails when the coordinator requests its part of the model. With
// three servers, another server than the coordinator holds the replica.
TEST(SlowReplicaModelTest, TheModelIsReadFromWhoeverKeepsIt) {
  for (const int servers : {2, 3}) {
    const FaultResult result =
        RunFault(Case("J4", /*seed=*/1, servers), MakeTestFolder());
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.actions, 1);
    EXPECT_EQ(result.steps_again, 0);
    EXPECT_EQ(result.weights_sha256, UndisturbedDigest(1));
  }
}

// Shows what the tests above would find without replicas.
TEST(WithoutReplicaTest, ACrashCostsTheStepsSinceTheCheckpoint) {
  FaultCase fault = Case("S10", /*seed=*/1, /*servers=*/2);
  fault.replicas = false;
  const FaultResult result = RunFault(fault, MakeTestFolder());
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(result.steps_again, 0);
}

}  // namespace
}  // namespace tributary
