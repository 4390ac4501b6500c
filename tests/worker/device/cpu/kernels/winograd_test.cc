// On every processor, whatever SuitsWinograd says.
#include "worker/device/cpu/kernels/winograd.h"

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"

namespace tributary::cpu {
namespace {

ConvolutionShape WinogradShape(int64_t batch, int64_t in_channels,
                               int64_t height, int64_t width,
                               int64_t out_channels) {
  ConvolutionShape s;
  s.batch = batch;
  s.in_channels = in_channels;
  s.in_height = s.out_height = height;
  s.in_width = s.out_width = width;
  s.out_channels = out_channels;
  s.kernel = 3;
  s.stride = 1;
  s.padding = 1;
  return s;
}

// Odd sides, single tiles, more than a block of them, blocks that begin in the
// middle of a row.
const ConvolutionShape kShapes[] = {
    WinogradShape(1, 1, 1, 1, 1), WinogradShape(2, 3, 2, 2, 7),
    WinogradShape(3, 5, 7, 9, 6), WinogradShape(5, 2, 8, 11, 13),
    WinogradShape(2, 4, 33, 30, 5)};

// As for a sum of n products, times what transformations add.
double Tolerance(int64_t n) {
  return 4 * static_cast<double>(n + 2) * kEpsilon;
}

class WinogradTest : public testing::TestWithParam<ConvolutionShape> {
 protected:
  const ConvolutionShape s_ = GetParam();
  const int64_t pixels_ = s_.batch * s_.in_height * s_.in_width;
  const Floats x_ = RandomFloats(pixels_ * s_.in_channels, 1);
  const Floats weight_ = RandomFloats(s_.out_channels * s_.in_channels * 9, 2);
  const Floats bias_ = RandomFloats(s_.out_channels, 3);
  const Floats dy_ = RandomFloats(pixels_ * s_.out_channels, 4);
  Scratch scratch_;
};

TEST_P(WinogradTest, ForwardIsTheConvolution) {
  for (const bool with_bias : {true, false}) {
    Floats y(dy_.size());
    WinogradForward(s_, x_.data(), weight_.data(),
                    with_bias ? bias_.data() : nullptr, scratch_, y.data());
    ExpectNear(
        y,
        reference::ConvolutionForward(s_, ToDoubles(x_), ToDoubles(weight_),
                                      with_bias ? ToDoubles(bias_) : Doubles()),
        Tolerance(9 * s_.in_channels));
  }
}

TEST_P(WinogradTest, BackwardInputIsTheConvolutions) {
  Floats dx(x_.size());
  WinogradBackwardInput(s_, dy_.data(), weight_.data(), scratch_, dx.data());
  ExpectNear(dx,
             reference::ConvolutionBackwardInput(s_, ToDoubles(dy_),
                                                 ToDoubles(weight_)),
             Tolerance(9 * s_.out_channels));
}

INSTANTIATE_TEST_SUITE_P(Shapes, WinogradTest, testing::ValuesIn(kShapes));

TEST(TakesWinogradTest, OnlyKernelsOfThreeThatKeepTheSize) {
  ConvolutionShape s = WinogradShape(1, 64, 8, 8, 64);
  EXPECT_TRUE(TakesWinograd(s));
  s.stride = 2;
  EXPECT_FALSE(TakesWinograd(s));
  EXPECT_FALSE(SuitsWinograd(s));
  EXPECT_FALSE(SuitsWinograd(WinogradShape(1, 3, 8, 8, 64)));
}

}  // namespace
}  // namespace tributary::cpu
