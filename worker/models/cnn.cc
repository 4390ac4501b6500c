#include "worker/models/cnn.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "worker/models/blocks/linear_stack.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/nn/layers/convolution.h"
#include "worker/nn/layers/pool.h"

namespace tributary {
namespace {

struct Image {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
};

std::string Size(const Image& image) {
  return absl::StrCat(image.height, "x", image.width);
}

absl::StatusOr<ConvolutionShape> ShapeOf(const std::string& field,
                                         const CnnSpec::Block& block,
                                         const Image& image) {
  ConvolutionShape shape;
  shape.kernel = block.kernel();
  shape.stride = block.stride();
  shape.padding =
      block.padding() < 0 ? (block.kernel() - 1) / 2 : block.padding();
  shape.in_channels = image.channels;
  shape.in_height = image.height;
  shape.in_width = image.width;
  shape.out_channels = block.channels();
  shape.out_height = Convolution::OutputSide(image.height, shape.kernel,
                                             shape.stride, shape.padding);
  shape.out_width = Convolution::OutputSide(image.width, shape.kernel,
                                            shape.stride, shape.padding);
  if (shape.out_height < 1 || shape.out_width < 1) {
    return Error(field + ".kernel", shape.kernel, " is larger than its ",
                 Size(image), " input with padding ", shape.padding);
  }
  return shape;
}

class CnnBuilder {
 public:
  CnnBuilder(const CnnSpec& spec, const Image& image)
      : spec_(spec),
        image_(image),
        graph_(image.channels * image.height * image.width),
        value_(graph_.input()) {}

  absl::Status AddBlock(int number);
  Graph Finish(const LossSpec& loss) &&;

 private:
  absl::Status AddPool(const std::string& field, const std::string& name,
                       const CnnSpec::Block& block);

  const CnnSpec& spec_;
  Image image_;
  Graph graph_;
  ValueId value_;
};

absl::Status CnnBuilder::AddBlock(int number) {
  const CnnSpec::Block& block = spec_.block(number);
  const std::string field = absl::StrCat("model.cnn.block[", number, "]");
  const std::string name = absl::StrCat("blocks.", number);
  TRIBUTARY_ASSIGN_OR_RETURN(const ConvolutionShape shape,
                             ShapeOf(field, block, image_));
  value_ = graph_.Add(
      name + ".convolution",
      std::make_unique<Convolution>(Convolution::FanInOptions(shape)),
      {value_});
  image_ = {shape.out_channels, shape.out_height, shape.out_width};

  // Max pooling commutes with ReLU, bit-identical in the output and the
  // gradient, and leaves fewer elements for ReLU.
  const bool pool_first =
      block.pool() == CnnSpec::Block::MAX && spec_.activation() == RELU;
  if (pool_first) TRIBUTARY_RETURN_IF_ERROR(AddPool(field, name, block));
  value_ =
      AddActivation(name + ".activation", spec_.activation(), value_, &graph_);
  if (!pool_first) TRIBUTARY_RETURN_IF_ERROR(AddPool(field, name, block));
  return absl::OkStatus();
}

absl::Status CnnBuilder::AddPool(const std::string& field,
                                 const std::string& name,
                                 const CnnSpec::Block& block) {
  if (block.pool() == CnnSpec::Block::NONE) return absl::OkStatus();
  PoolShape shape;
  shape.channels = image_.channels;
  shape.window = block.pool_size();
  shape.in_height = image_.height;
  shape.in_width = image_.width;
  shape.out_height = image_.height / shape.window;
  shape.out_width = image_.width / shape.window;
  if (shape.out_height < 1 || shape.out_width < 1) {
    return Error(field + ".pool_size", shape.window, " is larger than its ",
                 Size(image_), " input");
  }
  std::unique_ptr<Layer> layer;
  if (block.pool() == CnnSpec::Block::MAX) {
    layer = std::make_unique<MaxPool>(shape);
  } else {
    layer = std::make_unique<AveragePool>(shape);
  }
  value_ = graph_.Add(name + ".pool", std::move(layer), {value_});
  image_ = {shape.channels, shape.out_height, shape.out_width};
  return absl::OkStatus();
}

Graph CnnBuilder::Finish(const LossSpec& loss) && {
  LinearStack stack;
  stack.hidden = spec_.hidden();
  stack.activation = spec_.activation();
  stack.dropout = static_cast<float>(spec_.dropout());
  stack.dropout_first = true;
  AddLinearStack(stack, loss, value_, &graph_);
  return std::move(graph_);
}

}  // namespace

absl::StatusOr<Graph> BuildCnn(const ModelSpec& spec, const DataInfo& info) {
  const CnnSpec& cnn = spec.cnn();
  if (info.kind != DataInfo::Kind::kImages || info.sample_shape.size() != 3) {
    return Error("model.cnn", absl::StrCat("needs images; the data are ",
                                           KindName(info.kind)));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSpec loss, LossFor(spec, info));

  CnnBuilder builder(
      cnn, {info.sample_shape[0], info.sample_shape[1], info.sample_shape[2]});
  for (int i = 0; i < cnn.block_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(builder.AddBlock(i));
  }
  return std::move(builder).Finish(loss);
}

}  // namespace tributary
