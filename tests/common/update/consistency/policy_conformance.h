// Conformance suite that every ConsistencyPolicy must pass. The test of a
// policy links this library and instantiates ConsistencyPolicyConformanceTest
// with its modes.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_POLICY_CONFORMANCE_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_POLICY_CONFORMANCE_H_

#include <ostream>
#include <string>

#include "gtest/gtest.h"

namespace tributary {

// A parameter of the suite.
struct ConsistencyMode {
  std::string name;
  std::string consistency;  // Argument of JobWithConsistency.
};

inline void PrintTo(const ConsistencyMode& mode, std::ostream* os) {
  *os << mode.consistency;
}

inline std::string ModeName(
    const testing::TestParamInfo<ConsistencyMode>& mode) {
  return mode.param.name;
}

class ConsistencyPolicyConformanceTest
    : public testing::TestWithParam<ConsistencyMode> {};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_POLICY_CONFORMANCE_H_
