// The CPU device starts no threads, whatever the libraries below would like.
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

int64_t ThreadsOfThisProcess() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

TEST(OneThreadTest, LargeProductsAndConvolutionsStartNoThreads) {
  const int64_t before = ThreadsOfThisProcess();
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const LinearShape linear = {256, 256, 256};
  std::vector<float> x(256 * 256), weight(256 * 256), y(256 * 256);
  device->ops().linear->Forward({linear, AsReals(x.data()),
                                 AsReals(weight.data()), nullptr,
                                 AsReals(y.data())});
  device->ops().linear->BackwardInput(
      {linear, AsReals(y.data()), AsReals(weight.data()),
       /*accumulate=*/false, AsReals(x.data())});
  device->ops().linear->BackwardWeight(
      {linear, AsReals(x.data()), AsReals(y.data()),
       /*accumulate=*/false, weight.data(), nullptr});
  const ConvolutionShape convolution = {8, 16, 32, 32, 16, 32, 32, 3, 1, 1};
  std::vector<float> image(8 * 16 * 32 * 32), planes(image.size()),
      kernel(16 * 16 * 9), dkernel(kernel.size());
  device->ops().convolution->Forward({convolution, AsReals(image.data()),
                                      AsReals(kernel.data()), nullptr,
                                      AsReals(planes.data())});
  device->ops().convolution->BackwardInput({convolution, AsReals(planes.data()),
                                            AsReals(kernel.data()),
                                            AsReals(image.data())});
  device->ops().convolution->BackwardWeight({convolution, AsReals(image.data()),
                                             AsReals(planes.data()),
                                             dkernel.data(), nullptr});
  EXPECT_EQ(ThreadsOfThisProcess(), before);
}

}  // namespace
}  // namespace tributary
