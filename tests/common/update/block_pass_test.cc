#include "common/update/block_pass.h"

#include "gtest/gtest.h"
#include "tests/common/update/chunk_pass_conformance.h"

namespace tributary {

INSTANTIATE_TEST_SUITE_P(Cpu, ChunkPassConformanceTest,
                         testing::Values(ChunkPassKind{"cpu",
                                                       &MakeBlockPasses}));

}  // namespace tributary
