#include "network.h"

#include "digits.h"

namespace {

constexpr int kFeatures = 16 * (kSide / 2) * (kSide / 2);

torch::nn::Conv2dOptions SameSize(int inputs, int outputs) {
  return torch::nn::Conv2dOptions(inputs, outputs, /*kernel_size=*/3)
      .padding(1);
}

}  // namespace

Network::Network()
    : conv1_(SameSize(1, 8)),
      conv2_(SameSize(8, 16)),
      norm1_(8),
      norm2_(16),
      dropout_(0.2),
      output_(kFeatures, 10) {
  // In the order of forward, so that the last gradients leave first.
  register_module("conv1", conv1_);
  register_module("norm1", norm1_);
  register_module("conv2", conv2_);
  register_module("norm2", norm2_);
  register_module("dropout", dropout_);
  register_module("output", output_);
}

torch::Tensor Network::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::relu(norm1_(conv1_(images)));
  x = torch::relu(norm2_(conv2_(torch::max_pool2d(x, 2))));
  return output_(dropout_(x.flatten(1)));
}
