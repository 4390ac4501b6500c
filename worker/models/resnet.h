// Residual network.
#ifndef TRIBUTARY_WORKER_MODELS_RESNET_H_
#define TRIBUTARY_WORKER_MODELS_RESNET_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds a residual network (He et al., "Deep residual learning for image
// recognition", 2016): images -> stem -> stages of blocks -> mean of each
// channel -> linear -> loss. A basic block is
//   y = relu(bn2(conv2(relu(bn1(conv1(x))))) + x)
// with convolutions of 3 x 3 without bias. A bottleneck block is
//   y = relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x))))))) + x)
// where conv1 and conv3 are 1 x 1, conv2 is 3 x 3, and conv3 has four times as
// many outputs as conv1. Where a block halves the image, conv1 of a basic block
// and conv2 of a bottleneck have stride 2 (torchvision's "ResNet v1.5"; the
// paper has the stride in conv1 of both). Where a block halves the image or
// changes the number of channels, x passes through a convolution of 1 x 1 and a
// batch norm. The stem is a convolution, batch norm, ReLU and, for IMAGENET,
// pooling.
//
// Parameters have the names of torchvision's ResNets, but are in forward order.
// The stem has "conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean" and
// "bn1.running_var". With the prefix "layer<stage>.<block>.", a block has
// "conv1.weight", the four parameters of "bn1", "conv2.weight", in some blocks
// "downsample.0.weight" and the four parameters of "downsample.1", and the four
// parameters of "bn2". A bottleneck also has "conv3.weight", after those of
// "bn2", and ends with "bn3". Stages count from 1, blocks from 0. The output
// layer has "fc.weight" and "fc.bias". Returns InvalidArgument, naming the
// field, if a field of model.resnet is invalid.
absl::StatusOr<Graph> BuildResnet(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_RESNET_H_
