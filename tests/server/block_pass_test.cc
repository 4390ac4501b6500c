#include "server/block_pass.h"

#include "gtest/gtest.h"
#include "tests/server/chunk_pass_conformance.h"

namespace tributary {

INSTANTIATE_TEST_SUITE_P(Cpu, ChunkPassConformanceTest,
                         testing::Values(ChunkPassKind{"cpu",
                                                       &MakeBlockPasses}));

}  // namespace tributary
