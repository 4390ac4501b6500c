// Errors of a GPU, and what a device does after one: failures are injected into
// the emulated GPU.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using ::emulated_gpu::Failing;
using ::emulated_gpu::FailNext;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSize = 64;  // Of x, y and the weight: [8, 8] each.

class DeviceErrorTest : public testing::Test {
 protected:
  DeviceErrorTest()
      : device_(*CreateCudaDevice(/*ordinal=*/0)),
        memory_(*device_->Allocate(3 * kSize * sizeof(float))) {}
  ~DeviceErrorTest() override { emulated_gpu::StopFailing(); }

  Real* At(int number) const {
    return AsReals(static_cast<float*>(memory_.get()) + number * kSize);
  }
  void Relu() {
    device_->ops().elementwise->ReluForward({kSize, At(0), At(1)});
  }
  void Product() {
    device_->ops().linear->Forward(
        {{8, 8, 8}, At(0), At(2), /*bias=*/nullptr, At(1)});
  }

  // The error of a Relu whose launch is refused.
  static auto IsLaunchError() {
    return StatusIs(absl::StatusCode::kInternal,
                    AllOf(HasSubstr("Relu"), HasSubstr("on cuda:0"),
                          HasSubstr("cudaErrorLaunchOutOfResources")));
  }

  const std::unique_ptr<Device> device_;
  const Device::Memory memory_;
};

TEST_F(DeviceErrorTest, TheNextWaitNamesTheOperationTheGpuAndTheReason) {
  FailNext(Failing::kLaunch);
  Relu();
  EXPECT_THAT(device_->Synchronize(), IsLaunchError());
}

TEST_F(DeviceErrorTest, SoItDoesOfAProduct) {
  FailNext(Failing::kProduct);
  Product();
  EXPECT_THAT(device_->Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("cublasLtMatmul on cuda:0"),
                             HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED"))));
}

TEST_F(DeviceErrorTest, ACopyThatFailsIsReported) {
  float value = 0;
  FailNext(Failing::kCopy);
  EXPECT_THAT(device_->CopyToHost(&value, At(0), sizeof(value)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("CopyToHost on cuda:0"),
                             HasSubstr("cudaErrorIllegalAddress"))));
}

TEST_F(DeviceErrorTest, AnAllocationThatFailsLeavesTheDeviceAsItIs) {
  FailNext(Failing::kAllocation);
  EXPECT_THAT(device_->Allocate(1000),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("no 1000 bytes of GPU memory on cuda:0")));
  EXPECT_TRUE(device_->Allocate(1000).ok());
  EXPECT_TRUE(device_->Synchronize().ok());
}

TEST_F(DeviceErrorTest, WorkingMemoryThatDoesNotFitIsAnErrorOfTheOperation) {
  FailNext(Failing::kAllocation);
  Product();
  EXPECT_THAT(device_->Synchronize(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("working memory on cuda:0"),
                             HasSubstr("cudaErrorMemoryAllocation"))));
}

TEST_F(DeviceErrorTest, AnOperationThatFailsOnTheGpuIsReported) {
  Relu();
  FailNext(Failing::kWait);
  EXPECT_THAT(device_->Synchronize(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("cuda:0"),
                             HasSubstr("cudaErrorLaunchFailure"))));
}

TEST_F(DeviceErrorTest, TheFirstErrorStaysAndNothingRunsAfterIt) {
  const std::vector<float> ones(kSize, 1);
  device_->CopyFromHost(At(0), ones.data(), kSize * sizeof(float));
  ASSERT_TRUE(device_->Synchronize().ok());
  FailNext(Failing::kLaunch);
  Relu();
  const absl::Status first = device_->Synchronize();
  FailNext(Failing::kProduct);
  Relu();
  Product();
  EXPECT_EQ(device_->Synchronize(), first);
  std::vector<float> y(kSize, 5);
  EXPECT_EQ(device_->CopyToHost(y.data(), At(1), kSize * sizeof(float)), first);
  EXPECT_EQ(y, std::vector<float>(kSize, 5));
  EXPECT_EQ(device_->Allocate(1).status(), first);
  // Another instance is not affected.
  emulated_gpu::StopFailing();
  EXPECT_TRUE((*CreateCudaDevice(/*ordinal=*/0))->Synchronize().ok());
}

TEST_F(DeviceErrorTest, EventsCarryErrorsToThoseWhoWaitForThem) {
  const std::unique_ptr<Event> computed = *device_->copies()->CreateEvent();
  const std::unique_ptr<Event> copied = *device_->copies()->CreateEvent();
  const std::unique_ptr<CopyStream> copies = *device_->copies()->CreateStream();
  FailNext(Failing::kLaunch);
  Relu();
  device_->copies()->Record(computed.get());
  copies->Await(*computed);
  std::vector<float> y(kSize, 5);
  copies->CopyToHost(y.data(), At(1), kSize * sizeof(float));
  copies->Record(copied.get());
  const absl::Status error = device_->Synchronize();
  EXPECT_THAT(error, IsLaunchError());
  EXPECT_EQ(copied->Done().status(), error);
  EXPECT_EQ(copied->Wait(), error);
  EXPECT_EQ(copies->Synchronize(), error);
  EXPECT_EQ(y, std::vector<float>(kSize, 5));
}

TEST_F(DeviceErrorTest, ALossIsNotReturnedAfterAnError) {
  const Device::Memory labels = *device_->Allocate(8 * sizeof(int32_t));
  const auto begin = [&] {
    device_->ops().loss->BeginSoftmaxCrossEntropy(
        {8, 8, At(0), static_cast<const int32_t*>(labels.get()), At(1)});
  };
  begin();
  EXPECT_TRUE(device_->ops().loss->Await().ok());
  FailNext(Failing::kLaunch);
  begin();
  EXPECT_THAT(device_->ops().loss->Await(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("SoftmaxCrossEntropy on cuda:0")));
}

TEST_F(DeviceErrorTest, AFailedDeviceCapturesNothing) {
  FailNext(Failing::kLaunch);
  Relu();
  EXPECT_THAT(device_->capture()->Begin(), IsLaunchError());
}

}  // namespace
}  // namespace tributary
