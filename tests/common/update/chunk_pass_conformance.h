// Conformance suite that every ChunkPass must pass. The test of an
// implementation links this library and instantiates ChunkPassConformanceTest
// with it.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_CONFORMANCE_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_CONFORMANCE_H_

#include <functional>
#include <ostream>
#include <string>

#include "common/update/chunk_pass.h"
#include "gtest/gtest.h"

namespace tributary {

struct ChunkPassKind {
  std::string name;
  // Creates the passes. If it returns FailedPrecondition, because the machine
  // has no such device, the test is skipped.
  ChunkPassMaker make;
};

inline void PrintTo(const ChunkPassKind& kind, std::ostream* os) {
  *os << kind.name;
}

class ChunkPassConformanceTest : public testing::TestWithParam<ChunkPassKind> {
 protected:
  void SetUp() override;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_CONFORMANCE_H_
