// Same arguments, same bits: again, in another instance, beside other threads.
#include <thread>

#include "tests/worker/device/device_conformance.h"

namespace tributary {
namespace {

// One pass through operations of every kind; returns all results.
Floats RunEverything(Device& device) {
  const auto floats = [&](int64_t count, uint32_t seed) {
    return GuardedArray<float>(device, RandomFloats(count, seed));
  };
  const auto reals = [&](int64_t count, uint32_t seed) {
    return Reals(device, RandomFloats(count, seed));
  };
  const RandomStream stream = {1, RandomPurpose::kDropout, 2, 3};
  const LinearShape linear = {16, 300, 700};
  ConvolutionShape conv{2, 3, 12, 12, 16, 12, 12, 5, 1, 2};
  const PoolShape pool = {2, 16, 12, 12, 6, 6, 2};
  // Implementations may have another kernel for heads of 32.
  const AttentionShape attention = {2, 33, 2, 16}, wide_head = {2, 33, 1, 32};

  const auto x = reals(16 * 300, 1), weight = reals(300 * 700, 2);
  auto y = reals(16 * 700, 3), dx = reals(16 * 300, 4);
  auto dweight = floats(700 * 300, 5), dbias = floats(700, 6);
  device.ops().linear->Forward({linear, x, weight, nullptr, y});
  device.ops().elementwise->GeluForward({16 * 700, y, y});
  device.ops().elementwise->Dropout({16 * 700, stream, 0.25f, y, y});
  device.ops().linear->BackwardInput({linear, y, weight, true, dx});
  const auto wide = reals(300 * 704, 20);
  auto z = reals(16 * 704, 21), gelu = reals(16 * 704, 22),
       dz = reals(16 * 704, 23);
  device.ops().linear->GeluForward({{16, 300, 704}, x, wide, nullptr, z, gelu});
  device.ops().linear->GeluBackwardInput({{16, 704, 300}, x, wide, z, dz});
  device.ops().linear->BackwardWeight({linear, x, y, false, dweight, dbias});

  const auto image = reals(2 * 3 * 144, 7), kernel = reals(16 * 3 * 25, 8);
  auto planes = reals(2 * 16 * 144, 9), dimage = reals(2 * 3 * 144, 10),
       pooled = reals(2 * 16 * 36, 12);
  auto dkernel = floats(16 * 3 * 25, 11);
  GuardedArray<int32_t> argmax(device, 2 * 16 * 36, 0);
  device.ops().convolution->Forward({conv, image, kernel, nullptr, planes});
  device.ops().convolution->BackwardInput({conv, planes, kernel, dimage});
  device.ops().convolution->BackwardWeight(
      {conv, image, planes, dkernel, nullptr});
  device.ops().pooling->MaxForward({pool, planes, pooled, argmax});

  const int64_t count = 2 * 33 * 32;
  const auto qkv = reals(3 * count, 13);
  auto attended = reals(count, 14), dqkv = reals(3 * count, 15);
  auto saved = floats(device.ops().attention->SavedElements(attention), 16);
  device.ops().attention->Forward(
      {attention, qkv, stream, 0.1f, attended, saved});
  device.ops().attention->Backward(
      {attention, qkv, attended, saved, attended, stream, 0.1f, dqkv});
  auto attended2 = reals(count, 24), dqkv2 = reals(3 * count, 25);
  auto saved2 = floats(device.ops().attention->SavedElements(wide_head), 26);
  device.ops().attention->Forward(
      {wide_head, qkv, stream, 0.1f, attended2, saved2});
  device.ops().attention->Backward(
      {wide_head, qkv, attended2, saved2, attended2, stream, 0.1f, dqkv2});

  const BatchNormShape norm = {2, 16, 144, /*relu=*/true};
  auto normed = reals(2 * 16 * 144, 17), dnormed = reals(2 * 16 * 144, 18);
  auto statistics = floats(2 * 16, 19), dnorm = floats(2 * 16, 20);
  device.ops().batch_norm->Forward({norm, planes, dbias, dbias, nullptr, normed,
                                    statistics, statistics + 16});
  device.ops().batch_norm->Backward({norm, planes, dbias, statistics,
                                     statistics + 16, normed, planes, dnormed,
                                     dnorm, dnorm + 16, nullptr});
  const int64_t rows = 130, width = 33;
  const auto stream_input = reals(rows * width, 27);
  auto branch = reals(rows * width, 28), row_normed = reals(rows * width, 29),
       stream_gradient = reals(rows * width, 30);
  auto row_statistics = floats(2 * rows, 31), dscales = floats(2 * width, 32);
  device.ops().layer_norm->Forward({rows, width, stream_input, dbias, nullptr,
                                    row_normed, row_statistics,
                                    row_statistics + rows, branch, branch});
  device.ops().layer_norm->Backward({rows, width, branch, dbias, row_statistics,
                                     row_statistics + rows, row_normed,
                                     /*accumulate=*/true, stream_gradient,
                                     dscales, dscales + width});
  Floats all;
  const auto append = [&](const auto& buffer) {
    const Floats values = buffer.Download();
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const Reals* buffer :
       {&y, &dx, &z, &gelu, &dz, &dimage, &pooled, &attended, &dqkv, &attended2,
        &dqkv2, &normed, &dnormed, &branch, &row_normed, &stream_gradient}) {
    append(*buffer);
  }
  for (const auto* buffer : {&dweight, &dbias, &dkernel, &dnorm, &dscales}) {
    append(*buffer);
  }
  return all;
}

TEST_P(DeviceConformanceTest, ResultsAreTheSameInEveryInstanceAndThread) {
  const Floats expected = RunEverything(*device_);
  EXPECT_EQ(RunEverything(*device_), expected);
  constexpr int kThreads = 3;
  std::vector<Floats> results(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Device> device = GetParam().create();
      for (int repeat = 0; repeat < 3; ++repeat) {
        results[i] = RunEverything(*device);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Floats& result : results) EXPECT_EQ(result, expected);
}

// An instance belongs to no thread, only to one at a time.
TEST_P(DeviceConformanceTest, InstanceMayMoveBetweenThreads) {
  const Floats expected = RunEverything(*device_);
  for (int i = 0; i < 2; ++i) {
    Floats result;
    std::thread thread([&] { result = RunEverything(*device_); });
    thread.join();
    EXPECT_EQ(result, expected);
  }
}

}  // namespace
}  // namespace tributary
