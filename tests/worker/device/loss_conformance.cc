#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

std::vector<std::pair<int64_t, int64_t>> LossShapes() {
  return {{1, 1},   {1, 3},    {3, 17},   {17, 10},  {65, 3},
          {5, 257}, {16, 256}, {3, 1000}, {2, 5003}, {2, 10000}};
}

TEST_P(DeviceConformanceTest, CrossEntropyAndItsGradientMatchReference) {
  for (const auto& [rows, classes] : LossShapes()) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(classes));
    Floats logits = Random(rows * classes, 1);
    for (float& value : logits) value *= 10;
    logits = Rounded(*device_, logits);
    const Integers labels = RandomIntegers(rows, classes, 2);
    const auto device_logits = UploadReals(logits);
    const auto device_labels = Upload(labels);
    auto dlogits = OutputReals(rows * classes);
    const Loss loss = SoftmaxCrossEntropy(
        *device_, rows, classes, device_logits, device_labels, dlogits);
    const auto function = [&, rows = rows,
                           classes = classes](const Doubles& v) {
      return reference::SoftmaxCrossEntropy(rows, classes, v, labels);
    };
    // The sum of exponentials rounds as often as there are classes, at most.
    EXPECT_NEAR(loss.sum, function(ToDoubles(logits)),
                rows * (classes + 30) * kEpsilon);
    ExpectGradient(function, ToDoubles(logits), dlogits.Download(), 2e-6,
                   RealEpsilon());

    const Loss without = SoftmaxCrossEntropy(
        *device_, rows, classes, device_logits, device_labels, nullptr);
    EXPECT_NEAR(without.sum, loss.sum, rows * (classes + 30) * kEpsilon);
    EXPECT_EQ(without.correct, loss.correct);
    auto in_place = UploadReals(logits);
    SoftmaxCrossEntropy(*device_, rows, classes, in_place, device_labels,
                        in_place);
    EXPECT_EQ(in_place.Download(), dlogits.Download());
  }
}

TEST_P(DeviceConformanceTest, SmoothedCrossEntropyMatchesReference) {
  constexpr float kSmoothing = 0.25f;
  for (const auto& [rows, classes] : LossShapes()) {
    for (const int64_t padding : {int64_t{0}, classes / 3}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(classes) +
                   " with padding " + std::to_string(padding));
      const Floats logits = Rounded(*device_, Random(rows * classes, 1));
      const Integers labels = RandomIntegers(rows, classes - padding, 2);
      const auto device_logits = UploadReals(logits);
      const auto device_labels = Upload(labels);
      auto dlogits = OutputReals(rows * classes);
      const auto compute = [&, rows = rows, classes = classes](const Real* from,
                                                               Real* gradient) {
        device_->ops().loss->BeginSoftmaxCrossEntropy({rows, classes, from,
                                                       device_labels, gradient,
                                                       kSmoothing, padding});
        return device_->ops().loss->Await().value();
      };
      const auto function = [&, rows = rows,
                             classes = classes](const Doubles& v) {
        return reference::SoftmaxCrossEntropy(rows, classes, v, labels,
                                              kSmoothing, padding);
      };
      const double tolerance = rows * (classes + 30) * kEpsilon;
      const Loss loss = compute(device_logits, dlogits);
      EXPECT_NEAR(loss.sum, function(ToDoubles(logits)), tolerance);
      ExpectGradient(function, ToDoubles(logits), dlogits.Download(), 2e-6,
                     RealEpsilon());
      const Loss without = compute(device_logits, nullptr);
      EXPECT_NEAR(without.sum, loss.sum, tolerance);
      EXPECT_EQ(without.correct, loss.correct);
      auto in_place = UploadReals(logits);
      compute(in_place, in_place);
      EXPECT_EQ(in_place.Download(), dlogits.Download());
    }
  }
}

// As the logits of a padded vocabulary, which are minus infinity.
TEST_P(DeviceConformanceTest, SmoothingLeavesPaddingOut) {
  constexpr float kSmoothing = 0.5f;
  const float infinity = std::numeric_limits<float>::infinity();
  const Integers labels = {1};
  const auto device_labels = Upload(labels);
  const auto loss_of = [&](const Floats& logits, int64_t padding, Floats* out) {
    const auto device_logits = UploadReals(logits);
    const auto classes = static_cast<int64_t>(logits.size());
    auto gradient = OutputReals(classes);
    device_->ops().loss->BeginSoftmaxCrossEntropy({1, classes, device_logits,
                                                   device_labels, gradient,
                                                   kSmoothing, padding});
    const double sum = device_->ops().loss->Await().value().sum;
    *out = gradient.Download();
    return sum;
  };
  Floats padded, plain;
  const double expected = loss_of({1, 2, 0.5f}, 0, &plain);
  for (const int64_t classes : {5, 8}) {
    Floats logits = {1, 2, 0.5f};
    logits.resize(classes, -infinity);
    plain.resize(classes, 0.0f);
    EXPECT_EQ(loss_of(logits, classes - 3, &padded), expected) << classes;
    EXPECT_EQ(padded, plain) << classes;
  }
}

TEST_P(DeviceConformanceTest, CrossEntropyCountsFirstMaximaAsCorrect) {
  const int64_t rows = 33;
  for (const int64_t classes : {5, 8, 10000}) {
    SCOPED_TRACE(classes);
    Floats logits;
    for (int32_t value : RandomIntegers(rows * classes, 3, 1)) {
      logits.push_back(static_cast<float>(value));
    }
    // In wide rows, labels are among the first maxima at times only if they are
    // small.
    const Integers labels = RandomIntegers(rows, 5, 2);
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = logits.begin() + r * classes;
      correct +=
          std::max_element(row, row + classes) - row == labels[r] ? 1 : 0;
    }
    EXPECT_GT(correct, 0);
    const Loss loss = SoftmaxCrossEntropy(
        *device_, rows, classes, UploadReals(logits), Upload(labels), nullptr);
    EXPECT_EQ(loss.correct, correct);
  }
}

TEST_P(DeviceConformanceTest, CrossEntropyOfLargeLogitsIsFinite) {
  const Floats logits = {1000, -1000, 0, -1000, 1000, 0};
  auto dlogits = OutputReals(6);
  const Loss loss = SoftmaxCrossEntropy(*device_, 2, 3, UploadReals(logits),
                                        Upload(Integers{0, 0}), dlogits);
  EXPECT_DOUBLE_EQ(loss.sum, 2000.0);
  EXPECT_EQ(loss.correct, 1);
  EXPECT_EQ(dlogits.Download(), (Floats{0, 0, 0, -1, 1, 0}));
}

TEST_P(DeviceConformanceTest, CrossEntropyLeavesOutRowsWithoutLabel) {
  const Floats logits = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto dlogits = OutputReals(9);
  const Loss loss = SoftmaxCrossEntropy(*device_, 3, 3, UploadReals(logits),
                                        Upload(Integers{2, -1, 0}), dlogits);
  EXPECT_EQ(loss.counted, 2);
  EXPECT_EQ(loss.correct, 1);
  auto kept = OutputReals(6);
  const Loss alone =
      SoftmaxCrossEntropy(*device_, 2, 3, UploadReals(Floats{1, 2, 3, 7, 8, 9}),
                          Upload(Integers{2, 0}), kept);
  EXPECT_EQ(loss.sum, alone.sum);
  const Floats with = dlogits.Download();
  const Floats without = kept.Download();
  EXPECT_EQ(Floats(with.begin() + 3, with.begin() + 6), (Floats{0, 0, 0}));
  EXPECT_TRUE(std::equal(with.begin(), with.begin() + 3, without.begin()));
  EXPECT_TRUE(std::equal(with.begin() + 6, with.end(), without.begin() + 3));
}

TEST_P(DeviceConformanceTest, CrossEntropyOfNotANumberIsNotANumber) {
  for (const int64_t classes : {31, 32}) {
    for (int64_t place : {0, 1, 30}) {
      Floats logits = Random(2 * classes, 1);
      logits[place] = std::numeric_limits<float>::quiet_NaN();
      const Loss loss =
          SoftmaxCrossEntropy(*device_, 2, classes, UploadReals(logits),
                              Upload(Integers{1, 2}), nullptr);
      EXPECT_TRUE(std::isnan(loss.sum)) << place << " of " << classes;
    }
  }
}

TEST_P(DeviceConformanceTest, MeanSquaredErrorAndItsGradientMatchReference) {
  for (const auto& [rows, width] : LossShapes()) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    const Floats x = Random(rows * width, 1);
    const Floats target = Random(rows * width, 2);
    auto dx = OutputReals(rows * width);
    const Loss loss = MeanSquaredError(*device_, rows, width, UploadReals(x),
                                       Upload(target), dx);
    const auto function = [&, rows = rows, width = width](const Doubles& v) {
      return reference::MeanSquaredError(rows, width, v, ToDoubles(target));
    };
    // Differences round once each; a row's mean is of the order of 1.
    EXPECT_NEAR(loss.sum, function(ToDoubles(x)),
                rows * (width + 4) * kEpsilon);
    ExpectGradient(function, ToDoubles(x), dx.Download(), 1e-6, RealEpsilon());
    const Loss without = MeanSquaredError(*device_, rows, width, UploadReals(x),
                                          Upload(target), nullptr);
    EXPECT_EQ(without.sum, loss.sum);
  }
}

TEST_P(DeviceConformanceTest, BinaryCrossEntropyAndItsGradientMatchReference) {
  for (const int64_t rows : {1, 3, 257, 5000}) {
    SCOPED_TRACE(rows);
    Floats logits = Random(rows, 1);
    for (float& value : logits) value *= 10;
    logits = Rounded(*device_, logits);
    Integers labels = RandomIntegers(rows, 2, 2);
    if (rows > 1) labels[1] = -1;
    const auto device_logits = UploadReals(logits);
    const auto device_labels = Upload(labels);
    auto dlogits = OutputReals(rows);
    const auto compute = [&](const Real* from, Real* gradient) {
      device_->ops().loss->BeginBinaryCrossEntropy(
          {rows, from, device_labels, gradient});
      return device_->ops().loss->Await().value();
    };
    const Loss loss = compute(device_logits, dlogits);
    const auto function = [&](const Doubles& v) {
      return reference::BinaryCrossEntropy(v, labels);
    };
    EXPECT_NEAR(loss.sum, function(ToDoubles(logits)), rows * 4 * kEpsilon);
    ExpectGradient(function, ToDoubles(logits), dlogits.Download(), 1e-6,
                   RealEpsilon());
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      correct += labels[r] == (logits[r] > 0 ? 1 : 0) ? 1 : 0;
    }
    EXPECT_EQ(loss.correct, correct);
    EXPECT_EQ(loss.counted, rows > 1 ? rows - 1 : 1);
    EXPECT_EQ(compute(device_logits, nullptr).sum, loss.sum);
    auto in_place = UploadReals(logits);
    compute(in_place, in_place);
    EXPECT_EQ(in_place.Download(), dlogits.Download());
  }
}

TEST_P(DeviceConformanceTest, BinaryCrossEntropyOfExtremeLogits) {
  const Floats logits = {1000, -1000, 1000, -1000};
  auto dlogits = OutputReals(4);
  const auto device_labels = Upload(Integers{1, 0, 0, 1});
  device_->ops().loss->BeginBinaryCrossEntropy(
      {4, UploadReals(logits), device_labels, dlogits});
  EXPECT_EQ(device_->ops().loss->Await().value().sum, 2000);
  const Floats expected = {0, 0, 1, -1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(dlogits.Download()[i], expected[i], 1e-30);
  }
  auto not_a_number =
      UploadReals({std::numeric_limits<float>::quiet_NaN(), 1, 1, 1});
  device_->ops().loss->BeginBinaryCrossEntropy(
      {4, not_a_number, device_labels, nullptr});
  EXPECT_TRUE(std::isnan(device_->ops().loss->Await().value().sum));
}

}  // namespace
}  // namespace tributary
