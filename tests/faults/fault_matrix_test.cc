// Each failpoint with the action "crash", and some with the other actions.
#include "tests/faults/fault_matrix.h"

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"

namespace tributary {
namespace {

constexpr char kFaultMatrixProgram[] = "tests/faults/tributary_with_failpoints";

// Runs the case until the failpoints have acted `actions` times. On a busy
// machine, checkpoints may be skipped, and the job may end before the failpoint
// has acted. Such a run must succeed, but is repeated.
FaultResult RunUntilItActs(const FaultCase& fault, int actions) {
  FaultResult result;
  RunUntilItHits([&] {
    result = RunFault(fault, MakeTestFolder());
    return !result.status.ok() || result.actions == actions;
  });
  return result;
}

class FaultMatrixTest : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    FaultCase undisturbed;
    undisturbed.program = kFaultMatrixProgram;
    const FaultResult result = RunFault(undisturbed, MakeTestFolder());
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.weights_sha256.size(), 64u);
    digest_ = new std::string(result.weights_sha256);
  }
  static void TearDownTestSuite() { delete digest_; }

  static std::string* digest_;
};

std::string* FaultMatrixTest::digest_ = nullptr;

TEST_P(FaultMatrixTest, ACrashLosesNothing) {
  FaultCase fault;
  fault.program = kFaultMatrixProgram;
  fault.point = GetParam();
  const int actions = fault.point == "S17" ? 2 : 1;
  const FaultResult result = RunUntilItActs(fault, actions);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, actions);
  EXPECT_GE(result.restarts, 1);
  EXPECT_EQ(result.weights_sha256, *digest_);
}

INSTANTIATE_TEST_SUITE_P(All, FaultMatrixTest,
                         testing::ValuesIn(AllFailpoints()),
                         [](const auto& info) { return info.param; });

// Rows of tables, too; at half of the points with a lag, and with most rows on
// a disk.
class TablesFaultTest : public testing::TestWithParam<std::string> {
 protected:
  static FaultCase Case(int fixed_lag) {
    FaultCase fault;
    fault.program = kFaultMatrixProgram;
    fault.model = "tables";
    fault.fixed_lag = fixed_lag;
    fault.disk = fixed_lag > 0;
    return fault;
  }
  static const FaultResult& Undisturbed(int fixed_lag) {
    static auto* const results = new std::map<int, FaultResult>();
    const auto [found, added] = results->try_emplace(fixed_lag);
    if (added) found->second = RunFault(Case(fixed_lag), MakeTestFolder());
    return found->second;
  }
};

TEST_P(TablesFaultTest, ACrashLosesNoRow) {
  FaultCase fault = Case(GetParam().back() % 2);
  const FaultResult& undisturbed = Undisturbed(fault.fixed_lag);
  ASSERT_TRUE(undisturbed.status.ok()) << undisturbed.status;
  ASSERT_EQ(undisturbed.rows_sha256.size(), 64u);
  fault.point = GetParam();
  const int actions = fault.point == "S17" ? 2 : 1;
  const FaultResult result = RunUntilItActs(fault, actions);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, actions);
  EXPECT_EQ(result.weights_sha256, undisturbed.weights_sha256);
  EXPECT_EQ(result.rows_sha256, undisturbed.rows_sha256);
}

INSTANTIATE_TEST_SUITE_P(All, TablesFaultTest,
                         testing::ValuesIn(AllFailpoints()),
                         [](const auto& info) { return info.param; });

// The ledger shows that each step is applied once to each server's tables, as
// to each chunk. The lease of a lost worker's step goes to another one, which
// computes other gradients.
class AsynchronousTablesTest : public testing::TestWithParam<std::string> {};

TEST_P(AsynchronousTablesTest, ACrashOfAWorkerAppliesEachStepOnce) {
  FaultCase fault;
  fault.program = kFaultMatrixProgram;
  fault.model = "tables";
  fault.asynchronous = true;
  fault.point = GetParam();
  const FaultResult result = RunUntilItActs(fault, /*actions=*/1);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, 1);
  EXPECT_EQ(result.rows_sha256.size(), 64u);
}

INSTANTIATE_TEST_SUITE_P(Workers, AsynchronousTablesTest,
                         testing::Values("W4", "W6", "W7", "W8", "W9"),
                         [](const auto& info) { return info.param; });

using ErrorTest = FaultMatrixTest;

// The process continues, in this attempt of the job or another.
TEST_P(ErrorTest, AnErrorLosesNothing) {
  FaultCase fault;
  fault.program = kFaultMatrixProgram;
  fault.point = GetParam();
  fault.action = "error";
  const FaultResult result = RunUntilItActs(fault, /*actions=*/1);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, 1);
  EXPECT_EQ(result.weights_sha256, *digest_);
}

INSTANTIATE_TEST_SUITE_P(Errors, ErrorTest,
                         testing::Values("W2", "W8", "S4", "S7", "S12", "S14"),
                         [](const auto& info) { return info.param; });

using StopTest = FaultMatrixTest;

// The process is stopped for longer than the lease of 2 s.
TEST_P(StopTest, AProcessThatStoodStillLosesNothing) {
  FaultCase fault;
  fault.program = kFaultMatrixProgram;
  fault.point = GetParam();
  fault.action = "stop(3000)";
  const FaultResult result = RunFault(fault, MakeTestFolder());
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.actions, 1);
  EXPECT_EQ(result.weights_sha256, *digest_);
}

INSTANTIATE_TEST_SUITE_P(Stops, StopTest, testing::Values("W8", "S8"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tributary
