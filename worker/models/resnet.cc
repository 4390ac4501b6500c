#include "worker/models/resnet.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/resnet_preset.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/nn/layers/batch_norm.h"
#include "worker/nn/layers/convolution.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/pool.h"

namespace tributary {
namespace {

// The outputs of a bottleneck block have this many times its channels.
constexpr int64_t kExpansion = 4;

// ResNet-18.
constexpr int64_t kDefaultLayers[] = {2, 2, 2, 2};

// A value of the graph that holds images.
struct Images {
  ValueId value = 0;
  int64_t channels = 0, height = 0, width = 0;

  int64_t pixels() const { return height * width; }
};

class ResnetBuilder {
 public:
  explicit ResnetBuilder(const DataInfo& info)
      : graph_(info.sample_shape[0] * info.sample_shape[1] *
               info.sample_shape[2]),
        images_{graph_.input(), info.sample_shape[0], info.sample_shape[1],
                info.sample_shape[2]} {}

  void AddStem(ResnetSpec::Stem stem, int64_t width);
  void AddStage(const std::string& name, ResnetSpec::Block block,
                int64_t blocks, int64_t channels, int64_t stride);
  Graph Finish(const LossSpec& loss) &&;

 private:
  void AddBasicBlock(const std::string& name, int64_t channels, int64_t stride);
  void AddBottleneck(const std::string& name, int64_t channels, int64_t stride);
  // Returns the input of a block in the shape of its output: itself, or, if the
  // stride or the number of channels differs, a projection.
  Images AddSkip(const std::string& name, int64_t channels, int64_t stride);
  void AddMaxPool(int64_t window, int64_t stride, int64_t padding);
  Images AddConvolution(const std::string& name, const Images& x,
                        int64_t channels, int64_t kernel, int64_t stride);
  // Normalizes x and adds `residual` unless it is null.
  Images AddNorm(const std::string& name, const Images& x, bool relu,
                 const Images* residual = nullptr);

  Graph graph_;
  Images images_;
};

void ResnetBuilder::AddStem(ResnetSpec::Stem stem, int64_t width) {
  const bool imagenet = stem == ResnetSpec::IMAGENET;
  images_ = AddConvolution("conv1", images_, width, /*kernel=*/imagenet ? 7 : 3,
                           /*stride=*/imagenet ? 2 : 1);
  images_ = AddNorm("bn1", images_, /*relu=*/true);
  if (imagenet) AddMaxPool(/*window=*/3, /*stride=*/2, /*padding=*/1);
}

void ResnetBuilder::AddStage(const std::string& name, ResnetSpec::Block block,
                             int64_t blocks, int64_t channels, int64_t stride) {
  for (int64_t i = 0; i < blocks; ++i) {
    const std::string prefix = absl::StrCat(name, ".", i);
    const int64_t first_stride = i == 0 ? stride : 1;
    if (block == ResnetSpec::BOTTLENECK) {
      AddBottleneck(prefix, channels, first_stride);
    } else {
      AddBasicBlock(prefix, channels, first_stride);
    }
  }
}

void ResnetBuilder::AddBasicBlock(const std::string& name, int64_t channels,
                                  int64_t stride) {
  Images branch = AddConvolution(name + ".conv1", images_, channels,
                                 /*kernel=*/3, stride);
  branch = AddNorm(name + ".bn1", branch, /*relu=*/true);
  branch = AddConvolution(name + ".conv2", branch, channels, /*kernel=*/3,
                          /*stride=*/1);
  const Images skip = AddSkip(name, channels, stride);
  images_ = AddNorm(name + ".bn2", branch, /*relu=*/true, &skip);
}

void ResnetBuilder::AddBottleneck(const std::string& name, int64_t channels,
                                  int64_t stride) {
  Images branch = AddConvolution(name + ".conv1", images_, channels,
                                 /*kernel=*/1, /*stride=*/1);
  branch = AddNorm(name + ".bn1", branch, /*relu=*/true);
  branch =
      AddConvolution(name + ".conv2", branch, channels, /*kernel=*/3, stride);
  branch = AddNorm(name + ".bn2", branch, /*relu=*/true);
  branch = AddConvolution(name + ".conv3", branch, kExpansion * channels,
                          /*kernel=*/1, /*stride=*/1);
  const Images skip = AddSkip(name, kExpansion * channels, stride);
  images_ = AddNorm(name + ".bn3", branch, /*relu=*/true, &skip);
}

Images ResnetBuilder::AddSkip(const std::string& name, int64_t channels,
                              int64_t stride) {
  if (stride == 1 && images_.channels == channels) return images_;
  const Images skip = AddConvolution(name + ".downsample.0", images_, channels,
                                     /*kernel=*/1, stride);
  return AddNorm(name + ".downsample.1", skip, /*relu=*/false);
}

Images ResnetBuilder::AddConvolution(const std::string& name, const Images& x,
                                     int64_t channels, int64_t kernel,
                                     int64_t stride) {
  ConvolutionShape shape;
  shape.kernel = kernel;
  shape.stride = stride;
  shape.padding = kernel / 2;
  shape.in_channels = x.channels;
  shape.in_height = x.height;
  shape.in_width = x.width;
  shape.out_channels = channels;
  shape.out_height =
      Convolution::OutputSide(x.height, kernel, stride, shape.padding);
  shape.out_width =
      Convolution::OutputSide(x.width, kernel, stride, shape.padding);
  const ValueId value = graph_.Add(
      name, std::make_unique<Convolution>(Convolution::FanOutOptions(shape)),
      {x.value});
  return {value, channels, shape.out_height, shape.out_width};
}

Images ResnetBuilder::AddNorm(const std::string& name, const Images& x,
                              bool relu, const Images* residual) {
  BatchNorm::Options options;
  options.channels = x.channels;
  options.pixels = x.pixels();
  options.relu = relu;
  options.residual = residual != nullptr;
  std::vector<ValueId> inputs = {x.value};
  if (residual != nullptr) inputs.push_back(residual->value);
  Images y = x;
  y.value =
      graph_.Add(name, std::make_unique<BatchNorm>(options), std::move(inputs));
  return y;
}

void ResnetBuilder::AddMaxPool(int64_t window, int64_t stride,
                               int64_t padding) {
  PoolShape shape;
  shape.channels = images_.channels;
  shape.in_height = images_.height;
  shape.in_width = images_.width;
  shape.window = window;
  shape.stride = stride;
  shape.padding = padding;
  shape.out_height =
      Convolution::OutputSide(images_.height, window, stride, padding);
  shape.out_width =
      Convolution::OutputSide(images_.width, window, stride, padding);
  images_.value =
      graph_.Add("maxpool", std::make_unique<MaxPool>(shape), {images_.value});
  images_.height = shape.out_height;
  images_.width = shape.out_width;
}

Graph ResnetBuilder::Finish(const LossSpec& loss) && {
  ValueId value = graph_.Add(
      "avgpool",
      std::make_unique<GlobalAveragePool>(images_.channels, images_.pixels()),
      {images_.value});
  value = graph_.Add("fc",
                     std::make_unique<Linear>(
                         Linear::FanInOptions(images_.channels, loss.width)),
                     {value});
  graph_.SetLoss(loss, value);
  return std::move(graph_);
}

}  // namespace

absl::StatusOr<Graph> BuildResnet(const ModelSpec& spec, const DataInfo& info) {
  const ResnetSpec resnet = WithPreset(spec.resnet());
  if (info.kind != DataInfo::Kind::kImages || info.sample_shape.size() != 3) {
    return Error("model.resnet", absl::StrCat("needs images; the data are ",
                                              KindName(info.kind)));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));

  std::vector<int64_t> layers(resnet.layers().begin(), resnet.layers().end());
  if (layers.empty()) {
    layers.assign(std::begin(kDefaultLayers), std::end(kDefaultLayers));
  }
  ResnetBuilder builder(info);
  builder.AddStem(resnet.stem(), resnet.width());
  for (size_t i = 0; i < layers.size(); ++i) {
    builder.AddStage(absl::StrCat("layer", i + 1), resnet.block(), layers[i],
                     resnet.width() << i, /*stride=*/i == 0 ? 1 : 2);
  }
  return std::move(builder).Finish(loss);
}

}  // namespace tributary
