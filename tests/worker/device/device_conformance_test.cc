// The conformance suite on the CPU.
#include "tests/worker/device/device_conformance.h"

#include "gtest/gtest.h"

namespace tributary {

INSTANTIATE_TEST_SUITE_P(
    Cpu, DeviceConformanceTest,
    testing::Values(DeviceFactory{"cpu", [] { return CreateCpuDevice(); }},
                    DeviceFactory{"cpu in bfloat16", [] {
                                    return CreateCpuDevice(
                                        Precision::kBfloat16);
                                  }}));

}  // namespace tributary
