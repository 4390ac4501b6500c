// Captured work, and what differs from one launch of it to the next.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/device_conformance.h"

namespace tributary {
namespace {

constexpr int64_t kElements = 1001;
constexpr LinearShape kShape{7, 16, 24};

TEST_P(DeviceConformanceTest, CapturedWorkIsDoneAtEachLaunch) {
  if (device_->capture() == nullptr) GTEST_SKIP() << "captures nothing";
  const Reals x = UploadReals(Random(kElements, 1));
  auto y = OutputReals(kElements), z = OutputReals(kElements);
  const auto work = [&] {
    device_->ops().elementwise->ReluForward({kElements, x, y});
    device_->ops().elementwise->Copy({kElements, y, z});
    device_->ops().elementwise->Add({kElements, y, z});
  };
  work();
  const Floats expected = z.Download();
  ASSERT_TRUE(device_->capture()->Begin().ok());
  work();
  const auto captured = device_->capture()->End();
  ASSERT_TRUE(captured.ok()) << captured.status();
  for (int launch = 0; launch < 3; ++launch) {
    const Reals nothing = OutputReals(kElements);
    device_->ops().elementwise->Copy({kElements, nothing, z});
    ASSERT_TRUE(device_->capture()->Launch(**captured));
    EXPECT_EQ(z.Download(), expected);
  }
}

TEST_P(DeviceConformanceTest, CapturedWorkTakesItsTurn) {
  if (device_->capture() == nullptr) GTEST_SKIP() << "captures nothing";
  auto x = UploadReals(Floats(kElements, 1));
  auto y = UploadReals(Floats(kElements, 1));
  const auto add = [&] { device_->ops().elementwise->Add({kElements, x, y}); };
  add();
  ASSERT_TRUE(device_->capture()->Begin().ok());
  add();
  auto captured = device_->capture()->End();
  ASSERT_TRUE(captured.ok()) << captured.status();
  // y: 2, 3, then x: 4, then y: 7.
  ASSERT_TRUE(device_->capture()->Launch(**captured));
  device_->ops().elementwise->Add({kElements, y, x});
  ASSERT_TRUE(device_->capture()->Launch(**captured));
  captured->reset();  // It may still be running.
  EXPECT_EQ(y.Download(), Floats(kElements, 7));
  EXPECT_EQ(x.Download(), Floats(kElements, 4));
}

TEST_P(DeviceConformanceTest, WorkThatCannotBeCapturedIsNotDone) {
  if (device_->capture() == nullptr) GTEST_SKIP() << "captures nothing";
  auto x = UploadReals(Floats(kElements, 1));
  auto y = UploadReals(Floats(kElements, 2));
  device_->ops().elementwise->Add({kElements, x, y});
  ASSERT_TRUE(device_->capture()->Begin().ok());
  device_->ops().elementwise->Add({kElements, x, y});
  // No memory is given out meanwhile.
  EXPECT_THAT(
      device_->Allocate(1000),
      StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("cudaMalloc")));
  EXPECT_THAT(device_->capture()->End(),
              StatusIs(absl::StatusCode::kInternal,
                       testing::HasSubstr("cudaStreamEndCapture")));
  // The device works as ever.
  EXPECT_EQ(y.Download(), Floats(kElements, 3));
  device_->ops().elementwise->Add({kElements, x, y});
  EXPECT_EQ(y.Download(), Floats(kElements, 4));
}

// Layers of many sizes ask for working memory of many sizes.
TEST_P(DeviceConformanceTest, CapturedWorkKnowsThatWorkingMemoryHasMoved) {
  if (device_->capture() == nullptr) GTEST_SKIP() << "captures nothing";
  const auto sum = [&](int64_t rows, int64_t width) {
    const Reals x = UploadReals(Random(rows * width, 1));
    const Reals dy = UploadReals(Random(rows * width, 2));
    auto dx = OutputReals(rows * width);
    auto scale = Upload(Floats(width, 1)), mean = Upload(Floats(rows, 0));
    auto inverse = Upload(Floats(rows, 1));
    auto dscale = Output(width), dshift = Output(width);
    const auto work = [&] {
      device_->ops().layer_norm->Backward(
          {rows, width, x, scale, mean, inverse, dy,
           /*accumulate=*/false, dx, dscale, dshift});
    };
    work();
    const Floats expected = dscale.Download();
    EXPECT_TRUE(device_->capture()->Begin().ok());
    work();
    auto captured = device_->capture()->End();
    EXPECT_TRUE(captured.ok()) << captured.status();
    EXPECT_TRUE(device_->capture()->Launch(**captured));
    EXPECT_EQ(dscale.Download(), expected);
    return *std::move(captured);
  };
  const std::unique_ptr<CapturedWork> small = sum(40, 30);
  sum(1000, 100);
  EXPECT_FALSE(device_->capture()->Launch(*small));
  sum(40, 30);
}

TEST_P(DeviceConformanceTest, TheRandomBaseIsAddedToStreams) {
  const float rate = 0.4f;
  const RandomStream stream{1, RandomPurpose::kDropout, 3, 0xfffffff0u};
  const RandomStream sum{1, RandomPurpose::kDropout, 10, 0x10u};
  const RandomBase base{7, 0x20};
  const AttentionShape shape{2, 5, 2, 4};
  const Reals x = UploadReals(Random(kElements, 1));
  const Reals qkv = UploadReals(Random(2 * 5 * 3 * 2 * 4, 2));
  const Reals dy = UploadReals(Random(2 * 5 * 2 * 4, 3));
  struct Results {
    Floats dropped, y, dqkv;
  };
  const auto draw = [&](const RandomStream& numbers) {
    auto dropped = OutputReals(kElements);
    auto y = OutputReals(2 * 5 * 2 * 4), dqkv = OutputReals(2 * 5 * 3 * 2 * 4);
    auto saved = Output(device_->ops().attention->SavedElements(shape));
    device_->ops().elementwise->Dropout({kElements, numbers, rate, x, dropped});
    device_->ops().attention->Forward({shape, qkv, numbers, rate, y, saved});
    device_->ops().attention->Backward(
        {shape, qkv, y, saved, dy, numbers, rate, dqkv});
    return Results{dropped.Download(), y.Download(), dqkv.Download()};
  };
  const Results expected = draw(sum), without = draw(stream);
  device_->SetRandomBase(base);
  const Results with = draw(stream);
  EXPECT_EQ(with.dropped, expected.dropped);
  EXPECT_EQ(with.y, expected.y);
  EXPECT_EQ(with.dqkv, expected.dqkv);
  EXPECT_NE(with.dropped, without.dropped);
  device_->SetRandomBase({});
  EXPECT_EQ(draw(stream).dropped, without.dropped);
}

TEST_P(DeviceConformanceTest, CapturedWorkDrawsOtherNumbersFromAnotherBase) {
  if (device_->capture() == nullptr) GTEST_SKIP() << "captures nothing";
  const float rate = 0.4f;
  const Reals x = UploadReals(Random(kElements, 1));
  auto y = OutputReals(kElements);
  const auto drop = [&](uint32_t a) {
    device_->ops().elementwise->Dropout(
        {kElements, {1, RandomPurpose::kDropout, a, 5}, rate, x, y});
  };
  drop(9);
  const Floats expected = y.Download();
  drop(2);
  const Floats first = y.Download();
  ASSERT_TRUE(device_->capture()->Begin().ok());
  drop(2);
  const auto captured = device_->capture()->End();
  ASSERT_TRUE(captured.ok()) << captured.status();
  device_->SetRandomBase({7, 0});
  ASSERT_TRUE(device_->capture()->Launch(**captured));
  EXPECT_EQ(y.Download(), expected);
  device_->SetRandomBase({});
  ASSERT_TRUE(device_->capture()->Launch(**captured));
  EXPECT_EQ(y.Download(), first);
}

TEST_P(DeviceConformanceTest, ALossIsNotThatOfOperationsBehindIt) {
  const Reals logits = UploadReals(Random(5 * 4, 1));
  const auto labels = Upload(Integers{0, 1, -1, 3, 2});
  auto gradient = OutputReals(5 * 4);
  const Loss expected =
      SoftmaxCrossEntropy(*device_, 5, 4, logits, labels, gradient);
  device_->ops().loss->BeginSoftmaxCrossEntropy(
      {5, 4, logits, labels, gradient});
  auto other = UploadReals(Random(5 * 4, 2));
  device_->ops().elementwise->Copy({5 * 4, other, logits});
  const Loss loss = device_->ops().loss->Await().value();
  EXPECT_EQ(loss.sum, expected.sum);
  EXPECT_EQ(loss.correct, expected.correct);
  EXPECT_EQ(loss.counted, 4);
}

}  // namespace
}  // namespace tributary
