// A convolutional network that reads digits.
#ifndef EXAMPLES_CPP_LIBTORCH_NETWORK_H_
#define EXAMPLES_CPP_LIBTORCH_NETWORK_H_

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

class Network : public torch::nn::Module {
 public:
  Network();
  // Returns the logits [samples, 10] of images [samples, 1, kSide, kSide].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::BatchNorm2d norm1_, norm2_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear output_;
};

#endif  // EXAMPLES_CPP_LIBTORCH_NETWORK_H_
