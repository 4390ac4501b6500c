// Operations of encoders: attention in both directions, exact GELU, tanh, and
// sums of embeddings.
#include <cmath>

#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

struct Sequences {
  AttentionShape shape;
  Integers lengths;
};

// Lengths at and beside the sizes of tiles and vectors.
std::vector<Sequences> AllSequences() {
  return {{{2, 1, 1, 4, false}, {1, 1}},
          {{3, 5, 2, 3, false}, {5, 1, 4}},
          {{2, 67, 1, 8, false}, {64, 67}},
          {{2, 130, 2, 16, false}, {33, 129}}};
}

// Returns true if the element of y, [batch, time, ...], belongs to a position
// that exists. `width` is the number of elements of a position.
bool Exists(const Sequences& s, int64_t element, int64_t width) {
  const int64_t row = element / width;
  return row % s.shape.time < s.lengths[row / s.shape.time];
}

TEST_P(DeviceConformanceTest, AttentionInBothDirectionsMatchesReference) {
  for (const Sequences& s : AllSequences()) {
    for (const float rate : {0.0f, 0.3f}) {
      SCOPED_TRACE(std::to_string(s.shape.time) + " dropout " +
                   std::to_string(rate));
      Floats qkv = Random(3 * Count(s.shape), 1);
      for (float& value : qkv) value *= 2;
      const auto lengths = Upload(s.lengths);
      auto y = OutputReals(Count(s.shape));
      auto saved = Output(device_->ops().attention->SavedElements(s.shape));
      const auto device_qkv = UploadReals(qkv);
      device_->ops().attention->Forward(
          {s.shape, device_qkv, kDropoutStream, rate, y, saved, lengths});
      // As for causal attention; see sequence_conformance.cc.
      ExpectRealsNear(
          y,
          reference::AttentionForward(s.shape, ToDoubles(qkv), kDropoutStream,
                                      rate, s.lengths),
          200 * kEpsilon + 3 * RealEpsilon());
    }
  }
}

TEST_P(DeviceConformanceTest, ItsGradientMatchesFiniteDifferences) {
  for (const Sequences& s : AllSequences()) {
    if (s.shape.time > 100) continue;  // The reference takes seconds.
    for (const float rate : {0.0f, 0.3f}) {
      SCOPED_TRACE(std::to_string(s.shape.time) + " dropout " +
                   std::to_string(rate));
      const Floats qkv = Random(3 * Count(s.shape), 1);
      const Floats dy = Random(Count(s.shape), 2);
      const auto device_qkv = UploadReals(qkv);
      const auto lengths = Upload(s.lengths);
      auto y = OutputReals(Count(s.shape)),
           dqkv = OutputReals(3 * Count(s.shape));
      auto saved = Output(device_->ops().attention->SavedElements(s.shape));
      device_->ops().attention->Forward(
          {s.shape, device_qkv, kDropoutStream, rate, y, saved, lengths});
      device_->ops().attention->Backward({s.shape, device_qkv, y, saved,
                                          UploadReals(dy), kDropoutStream, rate,
                                          dqkv, lengths});
      ExpectGradient(
          [&](const Doubles& v) {
            return Dot(reference::AttentionForward(s.shape, v, kDropoutStream,
                                                   rate, s.lengths),
                       dy);
          },
          ToDoubles(qkv), dqkv.Download(), 1e-5 + RealEpsilon(), RealEpsilon());
    }
  }
}

TEST_P(DeviceConformanceTest, PositionsThatDoNotExistHaveNoEffectAndNoResult) {
  const Sequences s = {{2, 70, 2, 8, false}, {65, 7}};
  const int64_t width = s.shape.heads * s.shape.head_size;
  Floats qkv = Random(3 * Count(s.shape), 1), dy = Random(Count(s.shape), 2);
  Floats results[2][2];
  for (int run = 0; run < 2; ++run) {
    for (size_t i = 0; run == 1 && i < qkv.size(); ++i) {
      if (!Exists(s, i, 3 * width)) qkv[i] = 50;
    }
    for (size_t i = 0; run == 1 && i < dy.size(); ++i) {
      if (!Exists(s, i, width)) dy[i] = 50;
    }
    const auto device_qkv = UploadReals(qkv);
    const auto lengths = Upload(s.lengths);
    auto y = OutputReals(Count(s.shape)),
         dqkv = OutputReals(3 * Count(s.shape));
    auto saved = Output(device_->ops().attention->SavedElements(s.shape));
    device_->ops().attention->Forward(
        {s.shape, device_qkv, kDropoutStream, 0.2f, y, saved, lengths});
    device_->ops().attention->Backward({s.shape, device_qkv, y, saved,
                                        UploadReals(dy), kDropoutStream, 0.2f,
                                        dqkv, lengths});
    results[run][0] = y.Download();
    results[run][1] = dqkv.Download();
  }
  EXPECT_EQ(results[0][0], results[1][0]);
  EXPECT_EQ(results[0][1], results[1][1]);
  for (size_t i = 0; i < results[0][0].size(); ++i) {
    if (!Exists(s, i, width)) {
      EXPECT_EQ(results[0][0][i], 0) << i;
    }
  }
  for (size_t i = 0; i < results[0][1].size(); ++i) {
    if (!Exists(s, i, 3 * width)) {
      EXPECT_EQ(results[0][1][i], 0) << i;
    }
  }
}

Doubles Map(double (*function)(double), const Doubles& x) {
  Doubles y;
  for (const double value : x) y.push_back(function(value));
  return y;
}

// From far below zero, where the distribution function underflows, to far
// above.
Floats Arguments() {
  Floats x;
  for (int i = -1500; i <= 1500; ++i) x.push_back(0.01f * i + 1e-3f);
  return x;
}

TEST_P(DeviceConformanceTest, ExactGeluAndTanhMatchReference) {
  const Floats x = Arguments();
  const int64_t count = x.size();
  const auto device_x = UploadReals(x);
  auto y = OutputReals(count);
  const Doubles in = ToDoubles(device_x.Download());
  device_->ops().elementwise->ExactGeluForward({count, device_x, y});
  const Floats gelu = y.Download();
  device_->ops().elementwise->TanhForward({count, device_x, y});
  const Floats tanh = y.Download();
  for (int64_t i = 0; i < count; ++i) {
    const double wanted = reference::ExactGelu(in[i]);
    // exp(-x^2 / 2) has the relative error of its argument, up to 100.
    EXPECT_NEAR(gelu[i], wanted,
                (3e-5 + RealEpsilon()) * std::abs(wanted) + 1e-35)
        << in[i];
    EXPECT_NEAR(tanh[i], std::tanh(in[i]),
                (4e-7 + RealEpsilon()) * std::abs(std::tanh(in[i])))
        << in[i];
  }
}

TEST_P(DeviceConformanceTest, TheirGradientsMatchFiniteDifferences) {
  Floats x = Random(500, 1);
  for (float& value : x) value *= 4;
  const int64_t count = x.size();
  const Floats dy = Random(count, 2);
  const auto device_x = UploadReals(x), device_dy = UploadReals(dy);
  auto y = OutputReals(count), dx = OutputReals(count);
  const auto check = [&](double (*function)(double)) {
    ExpectGradient([&](const Doubles& v) { return Dot(Map(function, v), dy); },
                   ToDoubles(x), dx.Download(), 2e-6 + 2 * RealEpsilon(),
                   2 * RealEpsilon());
  };
  device_->ops().elementwise->ExactGeluBackward(
      {count, device_x, device_dy, dx});
  check(&reference::ExactGelu);
  device_->ops().elementwise->TanhForward({count, device_x, y});
  device_->ops().elementwise->TanhBackward({count, y, device_dy, dx});
  check(&std::tanh);
}

TEST_P(DeviceConformanceTest, EmbeddingsAreAddedWithoutPositions) {
  const int64_t batch = 2, time = 3, width = 5;
  const Integers types = {0, 1, 1, 0, 0, 1};
  const Floats table = Random(2 * width, 1), before = Random(6 * width, 2);
  const auto device_types = Upload(types);
  const auto device_table = Upload(table);
  auto y = UploadReals(before);
  EmbeddingOps::ForwardArguments args;
  args.batch = batch;
  args.time = time;
  args.width = width;
  args.tokens = device_types;
  args.token_table = device_table;
  args.accumulate = true;
  args.y = y;
  device_->ops().embedding->Forward(args);
  Doubles wanted;
  for (int64_t i = 0; i < 6 * width; ++i) {
    wanted.push_back(double{before[i]} +
                     table[types[i / width] * width + i % width]);
  }
  ExpectRealsNear(y, wanted, kEpsilon + 2 * RealEpsilon());
  auto dtable = Output(2 * width);
  EmbeddingOps::BackwardArguments backward;
  backward.batch = batch;
  backward.time = time;
  backward.width = width;
  backward.vocabulary = 2;
  backward.tokens = device_types;
  backward.dy = y;
  backward.dtoken_table = dtable;
  device_->ops().embedding->Backward(backward);
  Doubles sums(2 * width);
  const Floats dy = y.Download();
  for (int64_t i = 0; i < 6 * width; ++i) {
    sums[types[i / width] * width + i % width] += dy[i];
  }
  const Floats found = dtable.Download();
  for (int64_t i = 0; i < 2 * width; ++i) {
    EXPECT_NEAR(found[i], sums[i], 1e-6 * 6) << i;
  }
}

}  // namespace
}  // namespace tributary
