// Copies beside the operations: what devices with memory of their own promise.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/device_conformance.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

constexpr int64_t kCount = 300001;
constexpr size_t kBytes = kCount * sizeof(float);

TEST_P(DeviceConformanceTest, CopiesOverlapOperationsAndEventsOrderThem) {
  if (!device_->has_own_memory()) {
    EXPECT_EQ(device_->copies(), nullptr);
    GTEST_SKIP() << "there is nothing to copy";
  }
  if (device_->precision() != Precision::kFloat32) {
    GTEST_SKIP() << "copies know no types: see the same device in float32";
  }
  // Twice: once with pinned memory, once with memory that is not.
  for (const bool pins : {true, false}) {
    Floats x = RandomFloats(kCount, 1), y = RandomFloats(kCount, 2);
    Floats sum(kCount), doubled(kCount);
    std::vector<std::shared_ptr<void>> pinned;
    for (Floats* memory : {&x, &sum, &doubled}) {
      if (pins)
        pinned.push_back(
            device_->copies()->PinHostMemory(memory->data(), kBytes));
    }
    const GuardedArray<float> device_x = Output(kCount), device_y = Upload(y);
    auto in = device_->copies()->CreateStream(),
         out = device_->copies()->CreateStream();
    ASSERT_TRUE(in.ok() && out.ok()) << in.status() << out.status();
    std::vector<std::unique_ptr<Event>> events;
    for (int i = 0; i < 4; ++i) {
      auto event = device_->copies()->CreateEvent();
      ASSERT_TRUE(event.ok()) << event.status();
      EXPECT_TRUE((*event)->Done().value());
      events.push_back(*std::move(event));
    }
    Event* const loaded = events[0].get();
    Event* const computed = events[1].get();
    Event* const first_saved = events[2].get();
    Event* const second_saved = events[3].get();
    (*in)->CopyFromHost(device_x, x.data(), kBytes);
    (*in)->Record(loaded);
    device_->copies()->Await(*loaded);
    device_->ops().elementwise->Add(
        {kCount, AsReals(device_x), AsReals(device_y)});
    device_->copies()->Record(computed);
    (*out)->Await(*computed);
    (*out)->CopyToHost(sum.data(), device_y, kBytes);
    (*out)->Record(first_saved);
    // Must not come before what it would change has been copied.
    device_->copies()->Await(*first_saved);
    device_->ops().elementwise->Add(
        {kCount, AsReals(device_x), AsReals(device_y)});
    device_->copies()->Record(computed);
    (*out)->Await(*computed);
    (*out)->CopyToHost(doubled.data(), device_y, kBytes);
    (*out)->Record(second_saved);
    EXPECT_TRUE(second_saved->Wait().ok());
    EXPECT_TRUE(second_saved->Done().value());
    EXPECT_TRUE(loaded->Done().value());
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(sum[i], y[i] + x[i]) << i;
      ASSERT_EQ(doubled[i], sum[i] + x[i]) << i;
    }
    EXPECT_TRUE((*in)->Synchronize().ok());
    EXPECT_TRUE((*out)->Synchronize().ok());
    EXPECT_TRUE(device_->Synchronize().ok());
  }
}

TEST_P(DeviceConformanceTest, TellsWhatMemoryIsFree) {
  if (!device_->has_own_memory()) {
    EXPECT_EQ(device_->AvailableMemoryBytes(), std::nullopt);
    return;
  }
  const auto before = device_->AvailableMemoryBytes();
  ASSERT_TRUE(before.has_value());
  constexpr int64_t kTaken = int64_t{256} << 20;
  const auto memory = device_->Allocate(kTaken);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto after = device_->AvailableMemoryBytes();
  ASSERT_TRUE(after.has_value());
  EXPECT_LE(*after, *before - kTaken);
  EXPECT_THAT(device_->Allocate(*before),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("bytes of GPU memory")));
}

}  // namespace
}  // namespace tributary
