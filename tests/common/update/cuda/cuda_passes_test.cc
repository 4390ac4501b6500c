// The conformance suite on this machine's first GPU.
#include "common/update/cuda/cuda_passes.h"

#include "gtest/gtest.h"
#include "tests/common/update/chunk_pass_conformance.h"

namespace tributary {
namespace {

absl::StatusOr<ChunkPasses> MakeOnFirstGpu(const ChunkPassPlan& plan) {
  return MakeCudaPasses(/*ordinal=*/0, /*pass_streams=*/2, plan);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cuda, ChunkPassConformanceTest,
                         testing::Values(ChunkPassKind{"cuda",
                                                       &MakeOnFirstGpu}));

}  // namespace tributary
