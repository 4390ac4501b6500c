// Layer norm, embedding, attention.
#include <cmath>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

const int64_t kSizes[] = {1, 3, 16, 17, 65, 128};

struct Norm {
  Norm(const Device& device, int64_t rows, int64_t width, float mean)
      : rows(rows),
        width(width),
        x(Rounded(device, Plus(RandomFloats(rows * width, 1), mean))),
        scale(RandomFloats(width, 2)),
        shift(RandomFloats(width, 3)),
        dy(RandomReals(device, rows * width, 4)) {}
  int64_t rows, width;
  Floats x, scale, shift, dy;
};

TEST_P(DeviceConformanceTest, LayerNormForwardNormalizesRows) {
  for (int64_t rows : {1, 3, 17, 130}) {
    for (int64_t width : kSizes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      // A mean far from 0 shows variances that cancel.
      const Norm n(*device_, rows, width, /*mean=*/width == 1 ? 0.5f : 10.0f);
      for (const Floats& shift : {n.shift, Floats()}) {
        auto y = OutputReals(rows * width);
        auto mean = Output(rows), inverse = Output(rows);
        const auto device_shift = Upload(shift);
        device_->ops().layer_norm->Forward(
            {rows, width, UploadReals(n.x), Upload(n.scale),
             shift.empty() ? nullptr : device_shift.data(), y, mean, inverse});
        // x and its mean, about 10, round to 10 kEpsilon each, the mean a few
        // times, divided by a deviation of about 1/2 or, at width 3, less.
        ExpectRealsNear(
            y,
            reference::LayerNormForward(rows, width, ToDoubles(n.x),
                                        ToDoubles(n.scale), ToDoubles(shift)),
            1000 * kEpsilon);
      }
    }
  }
}

TEST_P(DeviceConformanceTest, LayerNormForwardAddsABranchLikeAdd) {
  for (int64_t rows : {1, 17}) {
    for (int64_t width : {1, 65, 300, 512, 516, 1024, 1032}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      const Norm n(*device_, rows, width, 0.5f);
      const auto x = UploadReals(n.x), branch = UploadReals(n.dy);
      const auto scale = Upload(n.scale), shift = Upload(n.shift);
      auto y = OutputReals(n.x.size()), expected_y = OutputReals(n.x.size());
      auto mean = Output(rows), inverse = Output(rows);
      auto expected_mean = Output(rows), expected_inverse = Output(rows);
      auto expected_sum = UploadReals(n.dy);
      device_->ops().elementwise->Add({rows * width, x, expected_sum});
      device_->ops().layer_norm->Forward({rows, width, expected_sum, scale,
                                          shift, expected_y, expected_mean,
                                          expected_inverse});
      auto apart = OutputReals(n.x.size()), in_place = UploadReals(n.dy);
      device_->ops().layer_norm->Forward(
          {rows, width, x, scale, shift, y, mean, inverse, branch, apart});
      EXPECT_EQ(apart.Download(), expected_sum.Download());
      EXPECT_EQ(branch.Download(), n.dy);
      EXPECT_EQ(y.Download(), expected_y.Download());
      device_->ops().layer_norm->Forward(
          {rows, width, x, scale, shift, y, mean, inverse, in_place, in_place});
      EXPECT_EQ(in_place.Download(), expected_sum.Download());
      EXPECT_EQ(y.Download(), expected_y.Download());
      EXPECT_EQ(mean.Download(), expected_mean.Download());
      EXPECT_EQ(inverse.Download(), expected_inverse.Download());
    }
  }
}

TEST_P(DeviceConformanceTest, LayerNormGradientsMatchFiniteDifferences) {
  for (int64_t rows : {1, 3, 17, 130}) {
    // Narrower rows are constant: their gradient is rounding alone.
    for (int64_t width : {3, 16, 17, 65, 264, 300, 512, 1024}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      const Norm n(*device_, rows, width, 0.5f);
      const auto x = UploadReals(n.x), dy = UploadReals(n.dy);
      const auto scale = Upload(n.scale);
      auto y = OutputReals(rows * width), dx = OutputReals(rows * width);
      auto mean = Output(rows), inverse = Output(rows), dscale = Output(width),
           dshift = Output(width);
      device_->ops().layer_norm->Forward(
          {rows, width, x, scale, nullptr, y, mean, inverse});
      device_->ops().layer_norm->Backward(
          {rows, width, x, scale, mean, inverse, dy,
           /*accumulate=*/false, dx, dscale, dshift});
      const Doubles xd = ToDoubles(n.x), sd = ToDoubles(n.scale),
                    bd = ToDoubles(n.shift);
      const auto forward = [&](const Doubles& x, const Doubles& s,
                               const Doubles& b) {
        return Dot(reference::LayerNormForward(rows, width, x, s, b), n.dy);
      };
      // At width 3 deviations are small, so gradients and their rounding large.
      const double tolerance = width < 16 ? 3e-4 : 2e-5;
      ExpectGradient([&](const Doubles& v) { return forward(v, sd, bd); }, xd,
                     dx.Download(), tolerance, RealEpsilon());
      ExpectGradient([&](const Doubles& v) { return forward(xd, v, bd); }, sd,
                     dscale.Download(), 2e-5);
      ExpectGradient([&](const Doubles& v) { return forward(xd, sd, v); }, bd,
                     dshift.Download(), 2e-5);
    }
  }
}

TEST_P(DeviceConformanceTest, LayerNormBackwardAccumulatesInputGradient) {
  for (const int64_t width : {37, 40}) {
    SCOPED_TRACE(width);
    const Norm n(*device_, 5, width, 0.5f);
    const auto x = UploadReals(n.x), dy = UploadReals(n.dy);
    const auto scale = Upload(n.scale);
    auto y = OutputReals(n.x.size()), dx = OutputReals(n.x.size());
    auto mean = Output(n.rows), inverse = Output(n.rows),
         dscale = Output(n.width);
    const Floats before = Random(n.x.size(), 5);
    auto sum = UploadReals(before);
    device_->ops().layer_norm->Forward(
        {n.rows, n.width, x, scale, nullptr, y, mean, inverse});
    device_->ops().layer_norm->Backward(
        {n.rows, n.width, x, scale, mean, inverse, dy,
         /*accumulate=*/false, dx, dscale, nullptr});
    const Floats dscale_before = dscale.Download();
    device_->ops().layer_norm->Backward(
        {n.rows, n.width, x, scale, mean, inverse, dy,
         /*accumulate=*/true, sum, dscale, nullptr});
    Doubles expected = ToDoubles(before);
    const Floats gradient = dx.Download();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += gradient[i];
    // Gradients, up to about 3, are rounded by themselves in dx alone.
    ExpectRealsNear(sum, expected, 8 * kEpsilon + 3 * RealEpsilon());
    EXPECT_EQ(dscale.Download(), dscale_before);  // Overwritten, not added to.
  }
}

TEST_P(DeviceConformanceTest, LayerNormBackwardSkipsTheInputGradient) {
  for (const int64_t width : {37, 40}) {
    SCOPED_TRACE(width);
    const Norm n(*device_, 70, width, 0.5f);
    const auto x = UploadReals(n.x), dy = UploadReals(n.dy);
    const auto scale = Upload(n.scale);
    auto y = OutputReals(n.x.size()), dx = OutputReals(n.x.size());
    auto mean = Output(n.rows), inverse = Output(n.rows);
    device_->ops().layer_norm->Forward(
        {n.rows, n.width, x, scale, nullptr, y, mean, inverse});
    const auto backward = [&](Real* input_gradient, bool with_shift) {
      auto dscale = Output(n.width), dshift = Output(n.width);
      device_->ops().layer_norm->Backward(
          {n.rows, n.width, x, scale, mean, inverse, dy,
           /*accumulate=*/false, input_gradient, dscale,
           with_shift ? static_cast<float*>(dshift) : nullptr});
      return std::make_pair(dscale.Download(),
                            with_shift ? dshift.Download() : Floats());
    };
    for (const bool with_shift : {false, true}) {
      EXPECT_EQ(backward(nullptr, with_shift), backward(dx, with_shift));
    }
  }
}

TEST_P(DeviceConformanceTest, EmbeddingAddsTokenAndPositionRows) {
  const int64_t batch = 3, time = 5, vocabulary = 7;
  for (int64_t width : kSizes) {
    const Integers tokens = RandomIntegers(batch * time, vocabulary, 1);
    const Floats table = Random(vocabulary * width, 2);
    const Floats positions = Random(time * width, 3);
    auto y = OutputReals(batch * time * width);
    device_->ops().embedding->Forward({batch, time, width, Upload(tokens),
                                       Upload(table), Upload(positions), y});
    Floats expected;
    for (int64_t i = 0; i < batch * time; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        expected.push_back(table[tokens[i] * width + c] +
                           positions[i % time * width + c]);
      }
    }
    EXPECT_EQ(y.Download(), Rounded(*device_, expected));
  }
}

TEST_P(DeviceConformanceTest, EmbeddingBackwardSumsInOrder) {
  const int64_t batch = 3, time = 5, vocabulary = 4, context = 6;
  for (int64_t width : kSizes) {
    for (bool accumulate : {false, true}) {
      const Integers tokens = RandomIntegers(batch * time, vocabulary, 1);
      const Floats dy = Random(batch * time * width, 2);
      const Floats before = Random(vocabulary * width, 3);
      const Floats position_before = Random(context * width, 4);
      auto dtable = Upload(before), dpositions = Upload(position_before);
      device_->ops().embedding->Backward({batch, time, width, vocabulary,
                                          Upload(tokens), UploadReals(dy),
                                          accumulate, dtable, dpositions});
      Floats table = accumulate ? before : Floats(before.size(), 0.0f);
      Floats positions = position_before;
      std::fill_n(positions.begin(), time * width, 0.0f);
      for (int64_t i = 0; i < batch * time; ++i) {
        for (int64_t c = 0; c < width; ++c) {
          table[tokens[i] * width + c] += dy[i * width + c];
          positions[i % time * width + c] += dy[i * width + c];
        }
      }
      EXPECT_EQ(dtable.Download(), table);
      ExpectNear(dpositions.Download(), ToDoubles(positions), 4 * kEpsilon);
    }
  }
}

std::vector<AttentionShape> AttentionShapes() {
  return {{1, 1, 1, 1},    {1, 3, 2, 4},    {2, 17, 3, 8},  {1, 65, 2, 5},
          {1, 33, 1, 65},  {2, 64, 2, 32},  {1, 130, 1, 4}, {1, 70, 1, 130},
          {1, 129, 2, 32}, {1, 131, 2, 64}, {2, 33, 1, 64}, {1, 67, 1, 128}};
}

std::string Name(const AttentionShape& s, float rate) {
  return std::to_string(s.batch) + " x " + std::to_string(s.time) + ", " +
         std::to_string(s.heads) + " heads of " + std::to_string(s.head_size) +
         ", dropout " + std::to_string(rate);
}

TEST_P(DeviceConformanceTest, AttentionForwardMatchesReference) {
  for (const AttentionShape& s : AttentionShapes()) {
    for (float rate : {0.0f, 0.3f}) {
      SCOPED_TRACE(Name(s, rate));
      Floats qkv = Random(3 * Count(s), 1);
      // Scores of up to +-20 make probabilities from 0 to 1.
      for (float& value : qkv) value *= 2;
      auto y = OutputReals(Count(s));
      auto saved = Output(device_->ops().attention->SavedElements(s));
      device_->ops().attention->Forward(
          {s, UploadReals(qkv), kDropoutStream, rate, y, saved});
      // A score of magnitude 20 rounds to 20 kEpsilon times the length of the
      // sum, and probabilities by the same, relatively; they may have been
      // rounded as factors. Values are up to 2, and divided by 1 - rate.
      ExpectRealsNear(
          y,
          reference::AttentionForward(s, ToDoubles(qkv), kDropoutStream, rate),
          200 * kEpsilon + 3 * RealEpsilon());
    }
  }
}

TEST_P(DeviceConformanceTest, AttentionGradientMatchesFiniteDifferences) {
  for (const AttentionShape& s : AttentionShapes()) {
    for (float rate : {0.0f, 0.3f}) {
      SCOPED_TRACE(Name(s, rate));
      const Floats qkv = Random(3 * Count(s), 1);
      const Floats dy = Random(Count(s), 2);
      const auto device_qkv = UploadReals(qkv);
      auto y = OutputReals(Count(s)), dqkv = OutputReals(3 * Count(s));
      auto saved = Output(device_->ops().attention->SavedElements(s));
      device_->ops().attention->Forward(
          {s, device_qkv, kDropoutStream, rate, y, saved});
      device_->ops().attention->Backward({s, device_qkv, y, saved,
                                          UploadReals(dy), kDropoutStream, rate,
                                          dqkv});
      // Gradients are up to about 5 and sums of up to `time` terms. Backward
      // takes the product of y and dy from y, whose rounding counts as much as
      // the score's factor and the probability, whose sum is 1.
      ExpectGradient(
          [&](const Doubles& v) {
            return Dot(reference::AttentionForward(s, v, kDropoutStream, rate),
                       dy);
          },
          ToDoubles(qkv), dqkv.Download(), 1e-5 + RealEpsilon(), RealEpsilon());
    }
  }
}

TEST_P(DeviceConformanceTest, AttentionLooksAtNoLaterPosition) {
  const AttentionShape s = {1, 37, 2, 16};
  const int64_t row = 3 * s.heads * s.head_size, seen = 20;
  Floats qkv = Random(3 * Count(s), 1);
  auto y = OutputReals(Count(s));
  auto saved = Output(device_->ops().attention->SavedElements(s));
  device_->ops().attention->Forward(
      {s, UploadReals(qkv), kDropoutStream, 0, y, saved});
  const Floats before = y.Download();
  for (size_t i = seen * row; i < qkv.size(); ++i) qkv[i] = 50;
  device_->ops().attention->Forward(
      {s, UploadReals(qkv), kDropoutStream, 0, y, saved});
  const Floats after = y.Download();
  const int64_t same = seen * s.heads * s.head_size;
  EXPECT_EQ(Floats(before.begin(), before.begin() + same),
            Floats(after.begin(), after.begin() + same));
}

}  // namespace
}  // namespace tributary
