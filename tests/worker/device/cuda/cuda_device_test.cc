// The conformance suite on a GPU, and what the CUDA device adds to it.
#include "worker/device/cuda/cuda_device.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"

namespace tributary {
namespace {

// Null, which skips the tests, where there is no GPU at all; one that does not
// work is an error.
std::unique_ptr<Device> CreateFirstGpu(Precision precision) {
  if (!CountCudaDevices().ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<Device>> device =
      CreateCudaDevice(0, precision);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

TEST(CudaDevice, RefusesGpusThatThereAreNot) {
  const absl::StatusOr<int> count = CountCudaDevices();
  if (!count.ok()) GTEST_SKIP() << count.status().message();
  for (int ordinal : {-1, *count}) {
    EXPECT_EQ(CreateCudaDevice(ordinal).status().code(),
              absl::StatusCode::kNotFound);
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Cuda, DeviceConformanceTest,
    testing::Values(DeviceFactory{"cuda",
                                  [] {
                                    return CreateFirstGpu(Precision::kFloat32);
                                  }},
                    DeviceFactory{"cuda in bfloat16", [] {
                                    return CreateFirstGpu(Precision::kBfloat16);
                                  }}));

}  // namespace tributary
