// Servers on the emulated GPU, whose memory the host cannot access and whose
// work runs as late as possible.
#include <string>

#include "common/update/cuda/cuda_passes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/gpu_servers.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<ChunkPasses> MakeOnEmulatedGpu(const ChunkPassPlan& plan) {
  emulated_gpu::ProtectMemory();
  return MakeCudaPasses(/*ordinal=*/0, /*pass_streams=*/2, plan);
}

using EmulatedGpuServersTest = GpuServersTest;

TEST_P(EmulatedGpuServersTest, AGpuThatIsTooSmallEndsTheJobAndSaysWhy) {
  ClusterServers servers;
  servers.make_passes = GetParam().make_passes;
  emulated_gpu::SetMemoryBytes(10000);
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder(),
                       /*security=*/{}, servers);
  cluster.StartWorker();
  const absl::Status status = cluster.Await();
  emulated_gpu::SetMemoryBytes(size_t{1} << 40);
  // The same code as for an invalid job file.
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("cuda:0 has no memory"),
                                     HasSubstr("are free"))));
}

TEST_P(EmulatedGpuServersTest, PinsWhatCopiesReadAndWrite) {
  const int64_t before = emulated_gpu::PinnedRanges();
  Train({/*servers=*/1, /*workers=*/2});
  // The gradients of each worker, and the weights, are pinned.
  EXPECT_GE(emulated_gpu::PinnedRanges() - before, 3);
}

TEST_P(EmulatedGpuServersTest, PinsOnlyTheGradientsInUse) {
  // Each worker shares 130 arenas of 36 KiB, and has few gradients in flight.
  Set("batch.global", "64");
  Set("batch.micro_batches", "64");
  Set("model.mlp.hidden", "1024");
  emulated_gpu::MostPinnedBytes();
  const int64_t before = emulated_gpu::PinnedBytes();
  Train({/*servers=*/1, /*workers=*/2});
  EXPECT_LT(emulated_gpu::MostPinnedBytes() - before, int64_t{4} << 20);
}

TEST_P(EmulatedGpuServersTest, AGpuThatFailsEndsTheJobAndSaysWhy) {
  struct Case {
    emulated_gpu::Failing failing;
    int64_t calls;  // Before the one that fails, which is in training.
    const char* error;
  };
  for (const Case& c :
       {Case{emulated_gpu::Failing::kLaunch, 3,
             "cudaErrorLaunchOutOfResources"},
        Case{emulated_gpu::Failing::kCopy, 30, "cudaErrorIllegalAddress"},
        Case{emulated_gpu::Failing::kWait, 6, "cudaErrorLaunchFailure"}}) {
    SCOPED_TRACE(c.error);
    ClusterServers servers;
    servers.make_passes = GetParam().make_passes;
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                         MakeTestFolder(), /*security=*/{}, servers);
    emulated_gpu::FailNext(c.failing, c.calls);
    cluster.StartWorker();
    const absl::Status status = cluster.Await();
    emulated_gpu::StopFailing();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kAborted,
                         AllOf(HasSubstr("server 0 failed: chunk "),
                               HasSubstr("on cuda:0"), HasSubstr(c.error))));
  }
}

const GpuServers kEmulated = {"emulated", 6, &MakeOnEmulatedGpu};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Emulated, GpuServersTest, testing::Values(kEmulated),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, EmulatedGpuServersTest,
                         testing::Values(kEmulated),
                         [](const auto& info) { return info.param.name; });

}  // namespace tributary
