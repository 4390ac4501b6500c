// The conformance suite on CUDA's kernels, emulated on the CPU. The threads of
// a block run in several orders: a kernel that lacks a barrier fails in one of
// them. The GPU is the second one, which no thread uses by accident.
#include <memory>

#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_gpu.h"
#include "tests/worker/device/device_conformance.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

DeviceFactory Emulated(const char* name, emulated_gpu::ThreadOrder order,
                       Precision precision) {
  return {name, [order, precision] {
            emulated_gpu::SetThreadOrder(order);
            auto device = CreateCudaDevice(1, precision);
            EXPECT_TRUE(device.ok()) << device.status();
            return device.ok() ? *std::move(device) : nullptr;
          }};
}

// The result of one product, of 1 + 2^-12 and 1, plus as much.
float Product(Precision precision) {
  const std::unique_ptr<Device> device = *CreateCudaDevice(0, precision);
  EXPECT_EQ(device->precision(), Precision::kFloat32);
  const float numbers[] = {1 + 0x1p-12f, 1, 0x1p-12f};
  const Device::Memory memory = *device->Allocate(4 * sizeof(float));
  auto* const at = static_cast<float*>(memory.get());
  device->CopyFromHost(at, numbers, sizeof(numbers));
  device->ops().linear->Forward({{1, 1, 1},
                                 AsReals(at),
                                 AsReals(at + 1),
                                 /*bias=*/at + 2,
                                 AsReals(at + 3)});
  float y;
  EXPECT_TRUE(device->CopyToHost(&y, at + 3, sizeof(y)).ok());
  return y;
}

// The same of a convolution.
float Convolution(Precision precision) {
  const std::unique_ptr<Device> device = *CreateCudaDevice(0, precision);
  const float numbers[] = {1 + 0x1p-12f, 1, 0x1p-12f};
  const Device::Memory memory = *device->Allocate(4 * sizeof(float));
  auto* const at = static_cast<float*>(memory.get());
  device->CopyFromHost(at, numbers, sizeof(numbers));
  ConvolutionShape shape;
  shape.batch = shape.in_channels = shape.in_height = shape.in_width = 1;
  shape.out_channels = shape.out_height = shape.out_width = shape.kernel = 1;
  device->ops().convolution->Forward({shape, AsReals(at), AsReals(at + 1),
                                      /*bias=*/at + 2, AsReals(at + 3)});
  float y;
  EXPECT_TRUE(device->CopyToHost(&y, at + 3, sizeof(y)).ok());
  return y;
}

TEST(Tf32Test, FactorsAreRoundedOnRequestAlone) {
  EXPECT_EQ(Product(Precision::kFloat32), 1 + 0x1p-11f);
  EXPECT_EQ(Product(Precision::kTf32), 1 + 0x1p-12f);
  EXPECT_EQ(Convolution(Precision::kFloat32), 1 + 0x1p-11f);
  EXPECT_EQ(Convolution(Precision::kTf32), 1 + 0x1p-12f);
}

TEST(Tf32Test, ACpuKeepsFloat32) {
  const std::unique_ptr<Device> device = CreateCpuDevice(Precision::kTf32);
  EXPECT_EQ(device->precision(), Precision::kFloat32);
  const float x = 1 + 0x1p-12f, weight = 1;
  float y;
  device->ops().linear->Forward({{1, 1, 1},
                                 AsReals(&x),
                                 AsReals(&weight),
                                 /*bias=*/nullptr,
                                 AsReals(&y)});
  EXPECT_EQ(y, x);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    EmulatedCuda, DeviceConformanceTest,
    testing::Values(
        Emulated("cuda, threads in descending order",
                 emulated_gpu::ThreadOrder::kDescending, Precision::kFloat32),
        Emulated("cuda, threads in random order",
                 emulated_gpu::ThreadOrder::kRandom, Precision::kFloat32),
        Emulated("cuda in bfloat16, threads in random order",
                 emulated_gpu::ThreadOrder::kRandom, Precision::kBfloat16),
        Emulated("cuda in bfloat16, threads in descending order",
                 emulated_gpu::ThreadOrder::kDescending,
                 Precision::kBfloat16)));

}  // namespace tributary
