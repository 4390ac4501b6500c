// The conformance suite on the CPU.
#include "tests/worker/device/device_conformance.h"

#include "gtest/gtest.h"

namespace tributary {

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformanceTest,
                         testing::Values(DeviceFactory{"cpu",
                                                       CreateCpuDevice}));

}  // namespace tributary
