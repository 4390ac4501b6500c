#include "common/plan/memory_account.h"

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kElements = 1000000;
constexpr int64_t kModel = 4 * kElements;

JobSpec Job(const std::string& more = "") {
  const absl::StatusOr<JobSpec> job = ParseJob(
      "model { mlp { hidden: 8 } }\n"
      "data { random { shape: 4 } }\n"
      "optimizer { adamw { learning_rate: 0.1 } }\n"
      "batch { global: 64 micro_batches: 8 }\nsteps: 1\n" +
          more,
      "job");
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

constexpr char kAllReduce[] = "exchange { all_reduce {} }";
constexpr char kLocalSteps[] =
    "exchange { parameter_server { consistency { local_steps { "
    "inner_steps: 4 } } } }";

TEST(MemoryAccountTest, ArenasAreThoseOfATreeOfLeaves) {
  EXPECT_EQ(GradientArenas(1, 1), 2);
  EXPECT_EQ(GradientArenas(2, 1), 2);
  EXPECT_EQ(GradientArenas(4, 1), 3);
  EXPECT_EQ(GradientArenas(5, 1), 4);
  EXPECT_EQ(GradientArenas(8, 1), 4);
  EXPECT_EQ(GradientArenas(8, 3), 6);
}

TEST(MemoryAccountTest, AServerHoldsTwoVersionsTheStateAndACheckpoint) {
  const JobSpec job = Job();
  const MemoryAccount server = ServerMemory({job, kElements, 2, true});
  EXPECT_EQ(server.weights(), 2 * kModel);
  EXPECT_EQ(server.optimizer(), 2 * kModel);
  EXPECT_EQ(server.copies(), 3 * kModel);
  EXPECT_EQ(server.gradients(), 0);
  const MemoryAccount apart = ServerMemory({job, kElements, 4, false});
  EXPECT_EQ(apart.gradients(), 3 * kModel);
  EXPECT_EQ(apart.copies(), 2 * kModel);
}

TEST(MemoryAccountTest, AServerOfAnAllReduceHoldsCopiesOnly) {
  const JobSpec job = Job(kAllReduce);
  const MemoryAccount server = ServerMemory({job, kElements, 2, false});
  EXPECT_EQ(server.weights() + server.optimizer() + server.gradients(), 0);
  EXPECT_GE(server.copies(), 3 * kModel);
}

TEST(MemoryAccountTest, ReplicasAreCopies) {
  const JobSpec plain = Job();
  const JobSpec job = Job("recovery { journal: true }");
  EXPECT_GT(ServerMemory({job, kElements, 2, true}).copies(),
            ServerMemory({plain, kElements, 2, true}).copies());
}

TEST(MemoryAccountTest, AWorkerHoldsGradientsAndActivations) {
  const JobSpec job = Job();
  WorkerLoad load = {job};
  load.elements = kElements;
  load.workers = 2;
  load.threads = 2;
  load.micro_batches = 4;
  load.activation_bytes = 1000;
  load.workspace_bytes = 100;
  load.data_bytes = 10;
  MemoryAccount worker = WorkerMemory(load);
  EXPECT_EQ(worker.weights(), 0);
  EXPECT_EQ(worker.gradients(), 4 * kModel);
  EXPECT_EQ(worker.activations(), 2000);
  EXPECT_EQ(worker.workspace(), 200);
  EXPECT_EQ(worker.data(), 10);
  load.shares_memory = false;
  EXPECT_EQ(WorkerMemory(load).weights(), 2 * kModel);
}

TEST(MemoryAccountTest, AWorkerThatUpdatesHoldsTheOptimizer) {
  const JobSpec job = Job(kAllReduce);
  WorkerLoad load = {job};
  load.elements = kElements;
  load.workers = 2;
  EXPECT_EQ(WorkerMemory(load).optimizer(), 2 * kModel);
  const JobSpec sharded =
      Job("exchange { all_reduce { shard_optimizer: true } }");
  WorkerLoad half = {sharded};
  half.elements = kElements;
  half.workers = 2;
  EXPECT_EQ(WorkerMemory(half).optimizer(), kModel);
  const JobSpec local = Job(kLocalSteps);
  WorkerLoad learner = {local};
  learner.elements = kElements;
  EXPECT_EQ(WorkerMemory(learner).optimizer(), 2 * kModel);
}

TEST(MemoryAccountTest, OnlySomeTransportsShareMemory) {
  EXPECT_TRUE(SharesMemory(Job(), SharedPart::kWeights));
  EXPECT_FALSE(SharesMemory(Job("exchange { transport: WIRE }"),
                            SharedPart::kGradients));
  EXPECT_FALSE(SharesMemory(Job(kAllReduce), SharedPart::kGradients));
  const JobSpec asynchronous =
      Job("exchange { parameter_server { consistency { asynchronous {} } } }");
  EXPECT_TRUE(SharesMemory(asynchronous, SharedPart::kGradients));
  EXPECT_FALSE(SharesMemory(asynchronous, SharedPart::kWeights));
}

TEST(MemoryAccountTest, LargestPartsComeFirst) {
  MemoryAccount account;
  account.set_weights(2000000);
  account.set_gradients(3000000000);
  account.set_data(1);
  EXPECT_EQ(DescribeMemory(account),
            "gradients 3.0 GB, weights 2.0 MB, data 1 byte");
  MemoryAccount sum = account;
  Add(account, &sum);
  EXPECT_EQ(TotalBytes(sum), 2 * TotalBytes(account));
}

}  // namespace
}  // namespace tributary
