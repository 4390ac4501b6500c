// Workers on the emulated GPU, whose memory the host cannot touch and whose
// copies run as late as they may.
#include "gtest/gtest.h"
#include "tests/integration/gpu_workers.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

absl::StatusOr<std::unique_ptr<Device>> MakeEmulatedGpu() {
  emulated_gpu::ProtectMemory();
  return CreateCudaDevice(/*ordinal=*/0);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Emulated, GpuWorkersTest,
                         testing::Values(GpuWorkers{"mlp", &MakeEmulatedGpu},
                                         GpuWorkers{"cnn", &MakeEmulatedGpu},
                                         GpuWorkers{"resnet", &MakeEmulatedGpu},
                                         GpuWorkers{"gpt", &MakeEmulatedGpu}),
                         [](const auto& info) { return info.param.family; });

}  // namespace tributary
