// Workers on this machine's first GPU.
#include "tests/integration/gpu_workers.h"

#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

absl::StatusOr<std::unique_ptr<Device>> MakeFirstGpu(Precision precision) {
  const absl::Status there = CountCudaDevices().status();
  if (!there.ok()) return there;
  return CreateCudaDevice(/*ordinal=*/0, precision);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, GpuWorkersTest,
                         testing::Values(GpuWorkers{"mlp", 30, &MakeFirstGpu},
                                         GpuWorkers{"cnn", 30, &MakeFirstGpu},
                                         GpuWorkers{"resnet", 30,
                                                    &MakeFirstGpu},
                                         GpuWorkers{"gpt", 30, &MakeFirstGpu}),
                         [](const auto& info) { return info.param.family; });

}  // namespace tributary
