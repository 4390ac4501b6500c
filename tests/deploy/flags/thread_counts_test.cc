#include "deploy/flags/thread_counts.h"

#include "deploy/flags/device_flag.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

static_assert(kThreadsPerGpu == 2, "The tests need more than one thread.");

// On a GPU, the number does not depend on the cores of the machine.
constexpr DeviceName kGpu = {DeviceName::Kind::kCuda, 0};

JobSpec JobOf(int64_t micro_batches) {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(micro_batches);
  return job;
}

ConsistencySpec* Consistency(JobSpec* job) {
  return job->mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency();
}

TEST(ThreadCountsTest, NoThreadIsWithoutAMicroBatch) {
  EXPECT_EQ(DefaultWorkerThreads(JobOf(1), 1, kGpu), 1);
  EXPECT_EQ(DefaultWorkerThreads(JobOf(4), 4, kGpu), 1);
  EXPECT_EQ(DefaultWorkerThreads(JobOf(4), 3, kGpu), 2);
  EXPECT_EQ(DefaultWorkerThreads(JobOf(4), 1, kGpu), 2);
}

TEST(ThreadCountsTest, WorkersThatComputeWholeBatchesDoNotShareMicroBatches) {
  JobSpec job = JobOf(4);
  Consistency(&job)->mutable_asynchronous();
  EXPECT_EQ(DefaultWorkerThreads(job, 4, kGpu), 2);
  job.mutable_batch()->set_micro_batches(1);
  EXPECT_EQ(DefaultWorkerThreads(job, 4, kGpu), 1);
}

TEST(ThreadCountsTest, WorkersShareMicroBatchesInAllOtherModes) {
  JobSpec stale = JobOf(4);
  Consistency(&stale)->mutable_stale_synchronous()->set_staleness(2);
  EXPECT_EQ(DefaultWorkerThreads(stale, 4, kGpu), 1);
  JobSpec local = JobOf(4);
  Consistency(&local)->mutable_local_steps()->set_inner_steps(4);
  EXPECT_EQ(DefaultWorkerThreads(local, 4, kGpu), 1);
  JobSpec all_reduce = JobOf(4);
  all_reduce.mutable_exchange()->mutable_all_reduce();
  EXPECT_EQ(DefaultWorkerThreads(all_reduce, 4, kGpu), 1);
}

}  // namespace
}  // namespace tributary
