// The conformance suite on CUDA's kernels, emulated on the CPU. The threads of
// a block run in one order and the other: a kernel that lacks a barrier fails
// in one of them.
#include <memory>

#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_gpu.h"
#include "tests/worker/device/device_conformance.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

DeviceFactory Emulated(const char* name, emulated_gpu::ThreadOrder order,
                       Precision precision) {
  return {name, [order, precision] {
            emulated_gpu::SetThreadOrder(order);
            auto device = CreateCudaDevice(0, precision);
            EXPECT_TRUE(device.ok()) << device.status();
            return device.ok() ? *std::move(device) : nullptr;
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    EmulatedCuda, DeviceConformanceTest,
    testing::Values(
        Emulated("cuda, threads in ascending order",
                 emulated_gpu::ThreadOrder::kAscending, Precision::kFloat32),
        Emulated("cuda, threads in descending order",
                 emulated_gpu::ThreadOrder::kDescending, Precision::kFloat32),
        Emulated("cuda in bfloat16, threads in ascending order",
                 emulated_gpu::ThreadOrder::kAscending, Precision::kBfloat16),
        Emulated("cuda in bfloat16, threads in descending order",
                 emulated_gpu::ThreadOrder::kDescending,
                 Precision::kBfloat16)));

}  // namespace tributary
