#include "tests/integration/gpu_workers.h"

#include <cmath>
#include <cstdlib>

#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {

void GpuWorkersTest::SetUp() {
  const absl::Status made =
      GetParam().make_device(Precision::kFloat32).status();
  if (absl::IsFailedPrecondition(made)) GTEST_SKIP() << made;
  ASSERT_TRUE(made.ok()) << made;
  job_ = TinyJob(GetParam().family, MakeTestFolder());
  job_.clear_epochs();
  job_.set_steps(GetParam().steps);
}

GpuWorkersTest::Result GpuWorkersTest::Train(const JobSpec& job,
                                             const Cluster& cluster) {
  LocalCluster local(job, cluster.servers, cluster.workers, MakeTestFolder());
  const DeviceMaker make =
      cluster.on_cpu ? DeviceMaker(&MakeCpuDevice) : GetParam().make_device;
  for (int i = 0; i < cluster.workers; ++i) {
    local.StartWorkerOn(make, cluster.threads);
  }
  if (cluster.kill_at >= 0) {
    local.AwaitStep(cluster.kill_at);
    local.KillWorker(0);
  }
  EXPECT_EQ(local.Await(), absl::OkStatus());
  const nlohmann::json summary = local.Summary();
  EXPECT_EQ(summary.value("steps", int64_t{0}), job.steps());
  return {summary.value("weights_sha256", "none"),
          summary.value("final_loss", -1.0),
          summary["evaluation"].value("loss", -1.0)};
}

TEST_P(GpuWorkersTest, TheMachinesDoNotDecideTheResult) {
  const Result one = Train(job_, {});
  EXPECT_EQ(one.digest.size(), 64u);
  // Two compute threads, several workers on one device, and several servers.
  EXPECT_EQ(Train(job_, {1, 2}).digest, one.digest);
  EXPECT_EQ(Train(job_, {2, 1, 2}).digest, one.digest);
  EXPECT_EQ(Train(job_, {3, 2}).digest, one.digest);
  job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  EXPECT_EQ(Train(job_, {2, 1}).digest, one.digest);
}

TEST_P(GpuWorkersTest, NorDoTheyInBfloat16) {
  const std::string float32 = Train(job_, {}).digest;
  job_.set_precision(JobSpec::BFLOAT16);
  const Result one = Train(job_, {});
  EXPECT_NE(one.digest, float32);
  EXPECT_EQ(Train(job_, {2, 2}).digest, one.digest);
  job_.mutable_exchange()->mutable_all_reduce()->set_chunk_bytes(4096);
  EXPECT_EQ(Train(job_, {3, 1}).digest, one.digest);
}

TEST_P(GpuWorkersTest, NorDoTheyInTf32WhichACpuHasNot) {
  const Result float32 = Train(job_, {});
  const Result on_cpu = Train(job_, {2, 1, 1, /*on_cpu=*/true});
  job_.set_precision(JobSpec::TF32);
  const Result one = Train(job_, {});
  EXPECT_EQ(Train(job_, {2, 2}).digest, one.digest);
  // Each factor loses at most a two-thousandth to rounding.
  EXPECT_NEAR(one.loss, float32.loss, 0.01 * std::abs(float32.loss));
  EXPECT_EQ(Train(job_, {1, 2, 1, /*on_cpu=*/true}).digest, on_cpu.digest);
}

TEST_P(GpuWorkersTest, TheResultIsNearTheCpus) {
  const Result gpu = Train(job_, {2});
  const Result cpu = Train(job_, {2, 1, 1, /*on_cpu=*/true});
  // The tolerance covers the rounding of a few steps. A missing gradient or old
  // weights in a step differ a hundred times as much.
  EXPECT_NEAR(gpu.loss, cpu.loss, 1e-4 * std::abs(cpu.loss));
  EXPECT_NEAR(gpu.evaluation_loss, cpu.evaluation_loss,
              1e-4 * std::abs(cpu.evaluation_loss));
}

TEST_P(GpuWorkersTest, AllReduceGivesTheSameBits) {
  const std::string digest = Train(job_, {}).digest;
  for (const bool sharded : {false, true}) {
    JobSpec job = job_;
    job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(sharded);
    job.mutable_exchange()->mutable_all_reduce()->set_chunk_bytes(4096);
    EXPECT_EQ(Train(job, {3, 2}).digest, digest);
  }
}

TEST_P(GpuWorkersTest, OneStaleOrAsynchronousWorkerIsSynchronous) {
  ConsistencySpec* const consistency = job_.mutable_exchange()
                                           ->mutable_parameter_server()
                                           ->mutable_consistency();
  const std::string digest = Train(job_, {}).digest;
  consistency->mutable_stale_synchronous()->set_staleness(0);
  EXPECT_EQ(Train(job_, {1, 2}).digest, digest);
  consistency->mutable_asynchronous();
  EXPECT_EQ(Train(job_, {1, 2}).digest, digest);
}

TEST_P(GpuWorkersTest, LocalStepsDoNotDependOnTheMachines) {
  job_.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(3);
  EXPECT_EQ(Train(job_, {1, 1}).digest, Train(job_, {2, 2}).digest);
}

TEST_P(GpuWorkersTest, AWorkersEndDoesNotChangeTheResult) {
  Cluster cluster;
  cluster.workers = 2;
  cluster.threads = 2;
  cluster.kill_at = GetParam().steps / 2;
  EXPECT_EQ(Train(job_, cluster).digest, Train(job_, {}).digest);
}

}  // namespace tributary
