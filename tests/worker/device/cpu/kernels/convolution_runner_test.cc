// The temporary memory of convolutions; device conformance tests check their
// results.
#include "worker/device/cpu/kernels/convolution_runner.h"

#include <malloc.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"
#include "worker/device/cpu/kernels/scratch.h"

namespace tributary::cpu {
namespace {

// A convolution that preserves the size of its images.
ConvolutionShape Shape(int64_t batch, int64_t in_channels, int64_t side,
                       int64_t out_channels, int64_t kernel) {
  ConvolutionShape s;
  s.batch = batch;
  s.in_channels = in_channels;
  s.in_height = s.in_width = s.out_height = s.out_width = side;
  s.out_channels = out_channels;
  s.kernel = kernel;
  s.stride = 1;
  s.padding = kernel / 2;
  return s;
}

int64_t InputSize(const ConvolutionShape& s) {
  return s.batch * s.in_channels * s.in_height * s.in_width;
}
int64_t OutputSize(const ConvolutionShape& s) {
  return s.batch * s.out_channels * s.out_height * s.out_width;
}
int64_t WeightSize(const ConvolutionShape& s) {
  return s.out_channels * s.in_channels * s.kernel * s.kernel;
}

// The results of all calls for one shape.
struct Results {
  Floats y, dx, dweight, dbias;
};

Results RunAll(const ConvolutionShape& s, ConvolutionRunner* runner) {
  const Floats x = RandomFloats(InputSize(s), 1),
               weight = RandomFloats(WeightSize(s), 2),
               bias = RandomFloats(s.out_channels, 3),
               dy = RandomFloats(OutputSize(s), 4);
  Results results = {Floats(dy.size()), Floats(x.size()), Floats(weight.size()),
                     Floats(bias.size())};
  runner->Forward(s, x.data(), weight.data(), bias.data(), results.y.data());
  runner->BackwardInput(s, dy.data(), weight.data(), results.dx.data());
  runner->BackwardWeight(s, x.data(), dy.data(), results.dweight.data(),
                         results.dbias.data());
  return results;
}

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

TEST(ConvolutionRunnerTest, ShapesShareTheirTemporaryMemory) {
  Scratch scratch;
  ConvolutionRunner runner(Precision::kFloat32, &scratch);
  const int64_t before = HeapBytes();
  int64_t tensors = 0;
  for (int64_t batch = 8; batch < 16; ++batch) {
    // One input and one output are 4 MiB or more.
    const ConvolutionShape s = Shape(batch, /*in_channels=*/32, /*side=*/64,
                                     /*out_channels=*/32, /*kernel=*/3);
    RunAll(s, &runner);
    tensors += (InputSize(s) + OutputSize(s)) * int64_t{sizeof(float)};
  }
  // What the library keeps for each shape, such as its code, is much smaller.
  EXPECT_LT(HeapBytes() - before, tensors / 8);
}

TEST(ConvolutionRunnerTest, OtherShapesDoNotChangeResults) {
  const std::vector<ConvolutionShape> shapes = {
      Shape(2, 3, 9, 16, 3), Shape(3, 17, 12, 33, 1), Shape(2, 16, 7, 5, 5),
      Shape(1, 32, 20, 32, 3)};
  Scratch scratch;
  ConvolutionRunner shared(Precision::kFloat32, &scratch);
  for (int round = 0; round < 2; ++round) {
    for (const ConvolutionShape& s : shapes) {
      Scratch own_scratch;
      ConvolutionRunner own(Precision::kFloat32, &own_scratch);
      const Results expected = RunAll(s, &own), results = RunAll(s, &shared);
      EXPECT_EQ(results.y, expected.y);
      EXPECT_EQ(results.dx, expected.dx);
      EXPECT_EQ(results.dweight, expected.dweight);
      EXPECT_EQ(results.dbias, expected.dbias);
    }
  }
}

}  // namespace
}  // namespace tributary::cpu
