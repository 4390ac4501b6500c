#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary {
namespace {

struct Shape {
  int64_t rows, count, width;

  int64_t size() const { return rows * count * width; }
  int64_t pairs() const { return count * (count - 1) / 2; }
};

// 33 vectors fill more than one tile of the CPU's.
const Shape kShapes[] = {{1, 1, 1},  {3, 2, 1},   {5, 3, 16}, {7, 6, 17},
                         {2, 33, 5}, {300, 4, 3}, {3, 70, 9}, {2, 27, 130}};

TEST_P(DeviceConformanceTest, CopyBlocksCopiesOrAddsBlocks) {
  // x: [rows, 11], two blocks of three elements; y: [rows, 9].
  for (const int64_t rows : {1, 4, 300}) {
    const Floats x = Random(rows * 11, 1), before = Random(rows * 9, 2);
    for (const bool accumulate : {false, true}) {
      auto y = UploadReals(before);
      InteractionOps::CopyBlocksArguments args;
      args.rows = rows;
      args.count = 2;
      args.width = 3;
      const auto device_x = UploadReals(x);
      args.x = device_x;
      args.from = {/*first=*/1, /*row_stride=*/11, /*stride=*/5};
      args.y = y;
      args.to = {/*first=*/2, /*row_stride=*/9, /*stride=*/4};
      args.accumulate = accumulate;
      device_->ops().interaction->CopyBlocks(args);
      Floats expected = before;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < 2; ++k) {
          for (int64_t c = 0; c < 3; ++c) {
            float& to = expected[r * 9 + 2 + k * 4 + c];
            to = x[r * 11 + 1 + k * 5 + c] + (accumulate ? to : 0.0f);
          }
        }
      }
      EXPECT_EQ(y.Download(), Rounded(*device_, expected));
    }
  }
}

TEST_P(DeviceConformanceTest, MultiplyMultipliesOrAddsTheProduct) {
  for (const int64_t count : {1, 15, 16, 65, 4099}) {
    const Floats a = Random(count, 1), b = Random(count, 2),
                 before = Random(count, 3);
    Doubles product, sum;
    for (int64_t i = 0; i < count; ++i) {
      product.push_back(static_cast<double>(a[i]) * b[i]);
      sum.push_back(before[i] + product.back());
    }
    auto y = OutputReals(count);
    device_->ops().interaction->Multiply(
        {count, UploadReals(a), UploadReals(b), y, /*accumulate=*/false});
    ExpectRealsNear(y, product, kEpsilon);
    auto added = UploadReals(before);
    device_->ops().interaction->Multiply(
        {count, UploadReals(a), UploadReals(b), added, /*accumulate=*/true});
    ExpectRealsNear(added, sum, 4 * kEpsilon);
  }
}

TEST_P(DeviceConformanceTest, SumBlocksMatchesReference) {
  for (const Shape& s : kShapes) {
    const Floats x = Random(s.size(), 1), bias = RandomFloats(s.width, 2);
    const auto device_x = UploadReals(x);
    const auto device_bias = Upload(bias);
    for (const bool biased : {false, true}) {
      auto y = OutputReals(s.rows * s.width);
      device_->ops().interaction->SumBlocks(
          {s.rows, s.count, s.width, device_x,
           biased ? device_bias.data() : nullptr, y});
      ExpectRealsNear(
          y,
          reference::SumBlocks(s.rows, s.count, s.width, ToDoubles(x),
                               biased ? ToDoubles(bias) : Doubles()),
          (s.count + 1) * (s.count + 1) * kEpsilon);
    }
  }
}

TEST_P(DeviceConformanceTest, BiasGradientIsTheColumnSums) {
  for (const Shape& s : kShapes) {
    const Floats dy = Random(s.rows * s.width, 1);
    auto dbias = Output(s.width);
    device_->ops().interaction->BiasGradient(
        {s.rows, s.width, UploadReals(dy), dbias});
    ExpectNear(dbias.Download(),
               reference::SumBlocks(1, s.rows, s.width, ToDoubles(dy), {}),
               s.rows * s.rows * kEpsilon);
  }
}

TEST_P(DeviceConformanceTest, PairDotsAndTheirGradientMatchReference) {
  for (const Shape& s : kShapes) {
    if (s.count == 1) continue;
    const Floats x = Random(s.size(), 1), dy = Random(s.rows * s.pairs(), 2);
    const auto device_x = UploadReals(x);
    auto y = OutputReals(s.rows * s.pairs());
    device_->ops().interaction->PairDotsForward(
        {s.rows, s.count, s.width, device_x, y});
    ExpectRealsNear(y,
                    reference::PairDots(s.rows, s.count, s.width, ToDoubles(x)),
                    s.width * s.width * kEpsilon);
    auto dx = OutputReals(s.size());
    device_->ops().interaction->PairDotsBackward(
        {s.rows, s.count, s.width, device_x, UploadReals(dy), dx});
    ExpectGradient(
        [&](const Doubles& v) {
          return Dot(reference::PairDots(s.rows, s.count, s.width, v), dy);
        },
        ToDoubles(x), dx.Download(), 2e-6 * s.count, RealEpsilon());
  }
}

TEST_P(DeviceConformanceTest, PairSumAndItsGradientMatchReference) {
  for (const Shape& s : kShapes) {
    const Floats x = Random(s.size(), 1), dy = Random(s.rows, 2);
    const auto device_x = UploadReals(x);
    auto y = OutputReals(s.rows);
    device_->ops().interaction->PairSumForward(
        {s.rows, s.count, s.width, device_x, y});
    // The squares of sums of up to `count` numbers below 1 are subtracted.
    ExpectRealsNear(y,
                    reference::PairSum(s.rows, s.count, s.width, ToDoubles(x)),
                    s.count * s.count * s.width * 4 * kEpsilon);
    auto dx = OutputReals(s.size());
    device_->ops().interaction->PairSumBackward(
        {s.rows, s.count, s.width, device_x, UploadReals(dy), dx});
    ExpectGradient(
        [&](const Doubles& v) {
          return Dot(reference::PairSum(s.rows, s.count, s.width, v), dy);
        },
        ToDoubles(x), dx.Download(), 2e-6 * s.count, RealEpsilon());
  }
}

}  // namespace
}  // namespace tributary
