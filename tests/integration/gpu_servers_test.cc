// Servers on this machine's first GPU.
#include "tests/integration/gpu_servers.h"

#include "common/update/cuda/cuda_passes.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

absl::StatusOr<ChunkPasses> MakeOnFirstGpu(const ChunkPassPlan& plan) {
  return MakeCudaPasses(/*ordinal=*/0, /*pass_streams=*/2, plan);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, GpuServersTest,
                         testing::Values(GpuServers{"cuda", 30,
                                                    &MakeOnFirstGpu}),
                         [](const auto& info) { return info.param.name; });

}  // namespace tributary
