// Workers on the emulated GPU, whose memory the host cannot access and whose
// copies run as late as possible.
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/gpu_workers.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/process/worker_process.h"
#include "worker/training/micro_batch_memory.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Device>> MakeEmulatedGpu(Precision precision) {
  emulated_gpu::ProtectMemory();
  return CreateCudaDevice(/*ordinal=*/0, precision);
}

class EmulatedGpuTest : public testing::Test {
 protected:
  EmulatedGpuTest() {
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p ", folder_).c_str()), 0);
    job_ = TinyJob("mlp", folder_);
    job_.clear_epochs();
    job_.set_steps(4);
  }
  ~EmulatedGpuTest() override {
    emulated_gpu::SetMemoryBytes(size_t{1} << 40);
    emulated_gpu::RefuseCaptures(false);
    emulated_gpu::StopFailing();
  }

  std::string Train(NcclLibrary* nccl, int threads, absl::Status* status,
                    int workers = 2) {
    const std::string output = absl::StrCat(folder_, "/", outputs_++);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p ", output).c_str()), 0);
    LocalCluster cluster(job_, /*servers=*/1, workers, output);
    for (int i = 0; i < workers; ++i) {
      cluster.StartWorkerOn(&MakeEmulatedGpu, threads, nccl,
                            &CreateCudaReductionStream);
    }
    *status = cluster.Await();
    return status->ok() ? cluster.Summary().value("weights_sha256", "none")
                        : "";
  }

  // Gives the job a model of at least four chunks.
  void MakeModelOfManyChunks() {
    MlpSpec* const mlp = job_.mutable_model()->mutable_mlp();
    mlp->clear_hidden();
    mlp->add_hidden(256);
    mlp->add_hidden(256);
    job_.mutable_exchange()->mutable_all_reduce()->set_chunk_bytes(65536);
  }

  // Returns the memory that one compute thread needs.
  MicroBatchMemory Needed() {
    DataInfo info;
    info.kind = DataInfo::Kind::kRows;
    info.sample_shape = {4};
    info.classes = 3;
    const JobSpec job = ResolveJob(job_);
    const absl::StatusOr<MicroBatchMemory> memory = PlanMicroBatchMemory(
        {job, info, !job.evaluation().disabled()}, job.batch().micro_batches(),
        **MakeEmulatedGpu(Precision::kFloat32));
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.value_or(MicroBatchMemory());
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name());
  JobSpec job_;
  int outputs_ = 0;
};

TEST_F(EmulatedGpuTest, AllReducesByNcclToTheSameBits) {
  MakeModelOfManyChunks();
  AllReduceSpec* const all_reduce =
      job_.mutable_exchange()->mutable_all_reduce();
  // Each compute thread has a micro-batch, and their sums are added.
  job_.mutable_batch()->set_global(4);
  job_.mutable_batch()->set_micro_batches(4);
  FakeNccl nccl;
  absl::Status status;
  // Both workers have the same GPU, which NCCL does not support.
  const std::string by_gloo = Train(&nccl, /*threads=*/1, &status);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccl.messages(), 0);
  all_reduce->set_backend(AllReduceSpec::NCCL);
  for (const int threads : {1, 2}) {
    all_reduce->set_shard_optimizer(threads == 1);
    const int64_t before = nccl.messages();
    EXPECT_EQ(Train(&nccl, threads, &status), by_gloo);
    EXPECT_TRUE(status.ok()) << status;
    // Each step sends each of the model's chunks in both directions.
    EXPECT_GE(nccl.messages() - before, 2 * 4 * job_.steps());
  }
  EXPECT_EQ(nccl.communicators(), 0);
}

// The optimizer has state, and waits for the norm.
TEST_F(EmulatedGpuTest, ClipsInAnAllReduceByNcclToTheSameBits) {
  MakeModelOfManyChunks();
  job_.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
  job_.set_clip_norm(0.1);
  AllReduceSpec* const all_reduce =
      job_.mutable_exchange()->mutable_all_reduce();
  FakeNccl nccl;
  absl::Status status;
  const std::string by_gloo = Train(&nccl, /*threads=*/1, &status);
  EXPECT_TRUE(status.ok()) << status;
  all_reduce->set_backend(AllReduceSpec::NCCL);
  for (const bool shard_optimizer : {false, true}) {
    all_reduce->set_shard_optimizer(shard_optimizer);
    EXPECT_EQ(Train(&nccl, /*threads=*/1, &status), by_gloo);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(EmulatedGpuTest, AnAllReduceByNcclLeavesGradientsAndWeightsOnTheGpu) {
  MakeModelOfManyChunks();
  job_.clear_evaluation();
  job_.mutable_evaluation()->set_disabled(true);
  AllReduceSpec* const all_reduce =
      job_.mutable_exchange()->mutable_all_reduce();
  all_reduce->set_backend(AllReduceSpec::NCCL);
  FakeNccl nccl;
  const auto bytes_of = [&](int64_t steps) {
    job_.set_steps(steps);
    const int64_t before = emulated_gpu::BytesToHost();
    absl::Status status;
    Train(&nccl, /*threads=*/1, &status);
    EXPECT_TRUE(status.ok()) << status;
    return emulated_gpu::BytesToHost() - before;
  };
  constexpr int kWorkers = 2;
  const int64_t bytes_of_a_step =
      (bytes_of(8) - bytes_of(4)) / (4 * int64_t{kWorkers});
  // The partial sums of squares and the loss, but not one of the chunks.
  EXPECT_GT(bytes_of_a_step, 0);
  EXPECT_LT(bytes_of_a_step, all_reduce->chunk_bytes() / 16);
}

TEST_F(EmulatedGpuTest, TheJobAsksForTf32) {
  absl::Status status;
  const std::string float32 = Train(/*nccl=*/nullptr, /*threads=*/1, &status);
  EXPECT_TRUE(status.ok()) << status;
  job_.set_precision(JobSpec::TF32);
  EXPECT_NE(Train(/*nccl=*/nullptr, /*threads=*/1, &status), float32);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(EmulatedGpuTest, TrainsTheSameWithoutGraphs) {
  absl::Status status;
  const int64_t before = emulated_gpu::GraphLaunches();
  const std::string digest = Train(/*nccl=*/nullptr, /*threads=*/2, &status);
  EXPECT_TRUE(status.ok()) << status;
  const int64_t launches = emulated_gpu::GraphLaunches() - before;
  EXPECT_GT(launches, 0);
  emulated_gpu::RefuseCaptures(true);
  EXPECT_EQ(Train(/*nccl=*/nullptr, /*threads=*/2, &status), digest);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(emulated_gpu::GraphLaunches(), before + launches);
}

TEST_F(EmulatedGpuTest, SaysThatThereIsNoNccl) {
  job_.mutable_exchange()->mutable_all_reduce()->set_backend(
      AllReduceSpec::NCCL);
  absl::Status status;
  Train(/*nccl=*/nullptr, /*threads=*/1, &status);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("exchange.all_reduce.backend is NCCL"));
}

TEST_F(EmulatedGpuTest, AFullGpuComputesFewerMicroBatchesAtATime) {
  absl::Status status;
  const std::string digest =
      Train(/*nccl=*/nullptr, /*threads=*/2, &status, /*workers=*/1);
  ASSERT_TRUE(status.ok()) << status;
  // Enough memory for one and a half compute threads.
  const MicroBatchMemory needed = Needed();
  emulated_gpu::SetMemoryBytes(static_cast<size_t>(
      needed.working + 3 * (needed.total() - needed.working) / 2));
  EXPECT_EQ(Train(/*nccl=*/nullptr, /*threads=*/2, &status, /*workers=*/1),
            digest);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(EmulatedGpuTest, AddsUpMicroBatchesInTheGpusMemoryToTheSameBits) {
  MlpSpec* const mlp = job_.mutable_model()->mutable_mlp();
  mlp->clear_hidden();
  mlp->add_hidden(512);
  // The model has four chunks.
  job_.mutable_exchange()->mutable_parameter_server()->set_chunk_bytes(4096);
  job_.mutable_batch()->set_global(8);
  job_.mutable_batch()->set_micro_batches(8);
  for (const ExchangeSpec::WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16}) {
    job_.mutable_exchange()->set_wire_dtype(dtype);
    for (const int threads : {1, 2}) {
      absl::Status status;
      const auto train = [&](int64_t* bytes) {
        const int64_t before = emulated_gpu::BytesToHost();
        const std::string digest =
            Train(/*nccl=*/nullptr, threads, &status, /*workers=*/1);
        EXPECT_TRUE(status.ok()) << status;
        *bytes = emulated_gpu::BytesToHost() - before;
        return digest;
      };
      int64_t all = 0, sums = 0;
      const std::string digest = train(&sums);
      // Enough memory for the compute threads only.
      emulated_gpu::SetMemoryBytes(static_cast<size_t>(3 * Needed().total()));
      EXPECT_EQ(train(&all), digest);
      emulated_gpu::SetMemoryBytes(size_t{1} << 40);
      // Of eight micro-batches, one sum for each compute thread is copied.
      EXPECT_LT(sums, all * threads / 6);
    }
  }
}

TEST_F(EmulatedGpuTest, AGpuThatFailsEndsTheWorkerAndAnotherTakesItsPlace) {
  struct Case {
    emulated_gpu::Failing failing;
    int64_t calls;  // Before the one that fails, which is in training.
    const char* operation;
    const char* error;
  };
  absl::Status healthy;
  const std::string digest =
      Train(/*nccl=*/nullptr, /*threads=*/1, &healthy, /*workers=*/1);
  ASSERT_TRUE(healthy.ok()) << healthy;
  for (const Case& c :
       {Case{emulated_gpu::Failing::kLaunch, 3, "on cuda:0",
             "cudaErrorLaunchOutOfResources"},
        Case{emulated_gpu::Failing::kProduct, 0, "cublasLtMatmul on cuda:0",
             "CUBLAS_STATUS_EXECUTION_FAILED"},
        Case{emulated_gpu::Failing::kCopy, 6, "on cuda:0",
             "cudaErrorIllegalAddress"},
        Case{emulated_gpu::Failing::kWait, 6, "on cuda:0",
             "cudaErrorLaunchFailure"}}) {
    SCOPED_TRACE(c.error);
    // An error during a capture has a fallback.
    emulated_gpu::RefuseCaptures(true);
    const std::string output = absl::StrCat(folder_, "/", outputs_++);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p ", output).c_str()), 0);
    emulated_gpu::FailNext(c.failing, c.calls);
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1, output);
    const absl::Status status =
        cluster.AwaitWorker(cluster.StartWorkerOn(&MakeEmulatedGpu));
    emulated_gpu::StopFailing();
    EXPECT_TRUE(DeviceHasFailed(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(c.operation), HasSubstr(c.error)));
    // Another process takes the worker's place.
    cluster.StartWorkerOn(&MakeEmulatedGpu);
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    EXPECT_EQ(cluster.Summary().value("weights_sha256", "none"), digest);
  }
}

TEST_F(EmulatedGpuTest, AGpuThatCannotBeUsedEndsTheWorkerToo) {
  const DeviceMaker broken =
      [](Precision) -> absl::StatusOr<std::unique_ptr<Device>> {
    return absl::InternalError("cuda:0 does not answer");
  };
  const std::string output = absl::StrCat(folder_, "/", outputs_++);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p ", output).c_str()), 0);
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1, output);
  const absl::Status status =
      cluster.AwaitWorker(cluster.StartWorkerOn(broken));
  EXPECT_TRUE(DeviceHasFailed(status)) << status;
  EXPECT_EQ(status.message(), "cuda:0 does not answer");
  cluster.StartWorkerOn(&MakeEmulatedGpu);
  EXPECT_TRUE(cluster.Await().ok());
}

TEST_F(EmulatedGpuTest, MemoryThatRunsOutSaysWhatToDo) {
  // Whichever allocation of the worker fails: those of the setup, of sums on
  // the GPU, which are left out then, and of operations.
  bool working_memory = false;
  for (int64_t allocation = 0; allocation < 12; ++allocation) {
    SCOPED_TRACE(allocation);
    emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation, allocation);
    absl::Status status;
    Train(/*nccl=*/nullptr, /*threads=*/1, &status, /*workers=*/1);
    emulated_gpu::StopFailing();
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()), HasSubstr("on cuda:0"));
    if (!absl::StrContains(status.message(), "working memory")) continue;
    working_memory = true;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cudaErrorMemoryAllocation"),
                      HasSubstr("increase batch.micro_batches, which is ")));
  }
  EXPECT_TRUE(working_memory);
}

TEST_F(EmulatedGpuTest, AGpuThatIsTooSmallSaysWhatWouldFit) {
  job_.mutable_batch()->set_micro_batches(1);
  job_.clear_evaluation();
  job_.mutable_evaluation()->set_disabled(true);
  emulated_gpu::SetMemoryBytes(static_cast<size_t>(Needed().total() - 1));
  absl::Status status;
  Train(/*nccl=*/nullptr, /*threads=*/1, &status);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("memory for a micro-batch"),
                    HasSubstr("Set batch.micro_batches to 2: ")));
}

}  // namespace

// On the emulated GPU, attention takes ten times as long as the other layers.
INSTANTIATE_TEST_SUITE_P(Emulated, GpuWorkersTest,
                         testing::Values(GpuWorkers{"mlp", 6, &MakeEmulatedGpu},
                                         GpuWorkers{"cnn", 6, &MakeEmulatedGpu},
                                         GpuWorkers{"resnet", 2,
                                                    &MakeEmulatedGpu}),
                         [](const auto& info) { return info.param.family; });

}  // namespace tributary
