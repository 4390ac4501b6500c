// On the emulated GPU, whose copies run as late as they may.
#include "worker/nn/device_inputs.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

using ::testing::Each;

constexpr int64_t kSamples = 5;
constexpr int64_t kInputs = 3;
constexpr int64_t kOutputs = 2;

class DeviceInputsTest : public testing::Test {
 protected:
  DeviceInputsTest() {
    emulated_gpu::ProtectMemory();
    const ValueId value = graph_.Add(
        "linear",
        std::make_unique<Linear>(Linear::FanInOptions(kInputs, kOutputs)),
        {graph_.input()});
    graph_.SetLoss({LossSpec::Kind::kMeanSquaredError, 1, kOutputs}, value);
    device_ = *CreateCudaDevice(/*ordinal=*/0);
    inputs_ = *DeviceInputs::Create(graph_, kSamples, device_.get());
  }

  // The host's memory is another's as soon as Bring returns.
  void Bring(float value) {
    std::vector<float> input(kSamples * kInputs, value);
    std::vector<float> target(kSamples * kOutputs, -value);
    inputs_->Bring({kSamples, input.data(), target.data()});
    input.assign(input.size(), -1000);
    target.assign(target.size(), -1000);
  }

  // What operations that are queued now find.
  struct Found {
    std::shared_ptr<void> memory;
    float* input() const { return static_cast<float*>(memory.get()); }
    float* target() const { return input() + kSamples * kInputs; }
  };
  Found Use() {
    Found found{*device_->Allocate(kSamples * (kInputs + kOutputs) * 4)};
    inputs_->Await();
    device_->ops().elementwise->Copy(
        {kSamples * kInputs, static_cast<const Real*>(inputs_->input()),
         AsReals(found.input())});
    device_->ops().elementwise->Copy(
        {kSamples * kOutputs, static_cast<const Real*>(inputs_->target()),
         AsReals(found.target())});
    inputs_->Release();
    return found;
  }
  std::vector<float> Read(const float* from, int64_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(
        device_->CopyToHost(values.data(), from, count * sizeof(float)).ok());
    return values;
  }
  void ExpectIs(const Found& found, float value) {
    EXPECT_THAT(Read(found.input(), kSamples * kInputs), Each(value));
    EXPECT_THAT(Read(found.target(), kSamples * kOutputs), Each(-value));
  }

  Graph graph_{kInputs};
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceInputs> inputs_;
};

TEST_F(DeviceInputsTest, OperationsFindTheMicroBatchOfTheirTime) {
  Bring(1);
  const Found first = Use();
  Bring(2);
  const Found second = Use();
  Bring(3);
  const Found third = Use();
  ExpectIs(third, 3);
  ExpectIs(second, 2);
  ExpectIs(first, 1);
}

TEST_F(DeviceInputsTest, TheNewestOfSeveralIsFound) {
  Bring(1);
  Bring(2);
  ExpectIs(Use(), 2);
}

TEST_F(DeviceInputsTest, TheNextMicroBatchComesWhileTheDeviceIsBusy) {
  // The device's operations wait for this stream, until it is let go.
  const std::unique_ptr<CopyStream> gate = *device_->copies()->CreateStream();
  const std::unique_ptr<Event> opened = *device_->copies()->CreateEvent();
  bool open = false;
  emulated_gpu::Enqueue(static_cast<emulated_gpu::Stream*>(gate->handle()),
                        [&open] { return open; });
  gate->Record(opened.get());
  Bring(1);
  device_->copies()->Await(*opened);
  const std::unique_ptr<Event> busy = *device_->copies()->CreateEvent();
  device_->copies()->Record(busy.get());
  Bring(2);
  EXPECT_FALSE(busy->Done().value());
  open = true;
  ExpectIs(Use(), 2);
  EXPECT_TRUE(busy->Done().value());
}

TEST_F(DeviceInputsTest, GoesByPinnedMemory) {
  const int64_t before = emulated_gpu::PinnedRanges();
  EXPECT_NE(*DeviceInputs::Create(graph_, kSamples, device_.get()), nullptr);
  EXPECT_EQ(emulated_gpu::PinnedRanges(), before + 1);
}

TEST_F(DeviceInputsTest, SaysWhenThereIsNoMemory) {
  emulated_gpu::SetMemoryBytes(1);
  EXPECT_EQ(
      DeviceInputs::Create(graph_, kSamples, device_.get()).status().code(),
      absl::StatusCode::kResourceExhausted);
  emulated_gpu::SetMemoryBytes(size_t{1} << 40);
}

TEST_F(DeviceInputsTest, TakesNothingWhereTheDeviceWorksInTheHostsMemory) {
  const std::unique_ptr<Device> cpu = CreateCpuDevice();
  EXPECT_EQ(DeviceInputs::BytesOf(graph_, kSamples, *cpu), 0);
  EXPECT_EQ(*DeviceInputs::Create(graph_, kSamples, cpu.get()), nullptr);
  EXPECT_GE(DeviceInputs::BytesOf(graph_, kSamples, *device_),
            kSamples * (kInputs + kOutputs) * 4);
}

}  // namespace
}  // namespace tributary
