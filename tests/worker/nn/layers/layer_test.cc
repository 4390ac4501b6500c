// Every layer's output against float64, and its gradients against central
// differences evaluated in float64.
#include "worker/nn/layers/layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/numerics/normal_quantile.h"
#include "tests/support/reference_layers.h"
#include "tests/worker/device/reference.h"
#include "worker/device/reals.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/attention.h"
#include "worker/nn/layers/batch_norm.h"
#include "worker/nn/layers/convolution.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/embedding.h"
#include "worker/nn/layers/interaction/block_sum.h"
#include "worker/nn/layers/interaction/columns.h"
#include "worker/nn/layers/interaction/product.h"
#include "worker/nn/layers/interaction/vector_pairs.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/pool.h"
#include "worker/nn/layers/residual.h"

namespace tributary {
namespace {

constexpr int64_t kSamples = 3;
constexpr float kRate = 0.3f;
const RandomStream kLayerStream{11, RandomPurpose::kDropout, 5, 6};

// The differences' own error is about 1e-10 (step 1e-5, squared). What is left
// is float32: 6e-8 per rounding, sums of up to a few hundred terms of size 1
// that may cancel.
constexpr double kStepSize = 1e-5;
constexpr double kTolerance = 1e-5;

struct Case {
  std::string name;
  std::function<std::unique_ptr<Layer>()> make;
  ReferenceLayer reference;
  std::vector<int32_t> tokens;  // In place of the input, if any.
};

float Random(uint32_t purpose, uint64_t number) {
  // Normal numbers, kept away from 0, where ReLU has no derivative.
  const RandomStream stream{3, RandomPurpose::kSampleOrder, 0, purpose};
  const auto value =
      static_cast<float>(NormalQuantile(stream.Block(number / 4)[number % 4]));
  return value + (value < 0 ? -0.01f : 0.01f);
}

Values RandomValues(uint32_t purpose, int64_t size) {
  Values values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = Random(purpose, i);
  return values;
}

class LayerTest : public testing::TestWithParam<Case> {
 protected:
  LayerTest()
      : device_(CreateCpuDevice()),
        layer_(GetParam().make()),
        spec_(layer_->Spec()) {
    call_.device = device_.get();
    call_.samples = kSamples;
    call_.training = true;
    call_.stream = kLayerStream;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      inputs_.push_back(RandomValues(i, kSamples * spec_.inputs[i]));
    }
    for (size_t i = 0; i < spec_.parameters.size(); ++i) {
      const std::vector<int64_t>& shape = spec_.parameters[i].shape;
      weights_.push_back(RandomValues(
          10 + i, std::accumulate(shape.begin(), shape.end(), int64_t{1},
                                  std::multiplies<>())));
    }
    output_gradient_ = RandomValues(20, kSamples * spec_.output);
  }

  bool HasTokens() const { return !GetParam().tokens.empty(); }

  // Device memory with `values`, kept until the test ends.
  float* Upload(const Values& values) {
    const std::vector<float> floats(values.begin(), values.end());
    memories_.push_back(
        *device_->Allocate(std::max<size_t>(1, floats.size()) * 4));
    device_->CopyFromHost(memories_.back().get(), floats.data(),
                          floats.size() * 4);
    return static_cast<float*>(memories_.back().get());
  }
  float* Room(int64_t size) { return Upload(Values(size, NAN)); }
  Real* UploadReals(const Values& values) { return AsReals(Upload(values)); }
  Real* RealRoom(int64_t size) { return AsReals(Room(size)); }
  Values Download(const void* from, int64_t size) {
    std::vector<float> floats(size);
    EXPECT_TRUE(
        device_->CopyToHost(floats.data(), from, floats.size() * 4).ok());
    return {floats.begin(), floats.end()};
  }

  LayerTensors MakeTensors() {
    LayerTensors tensors;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      tensors.inputs[i] = UploadReals(inputs_[i]);
      if (!HasTokens()) {
        tensors.input_gradients[i] = RealRoom(kSamples * spec_.inputs[i]);
      }
    }
    if (HasTokens()) {
      float* tokens = Room(kSamples * spec_.inputs[0]);
      device_->CopyFromHost(tokens, GetParam().tokens.data(),
                            GetParam().tokens.size() * 4);
      tensors.inputs[0] = AsReals(tokens);
    }
    for (size_t i = 0; i < weights_.size(); ++i) {
      const float* weights = Upload(weights_[i]);
      tensors.weights[i] = weights;
      if (i == 0) tensors.product_weight = AsReals(weights);
      tensors.weight_gradients[i] = Room(weights_[i].size());
    }
    tensors.output = RealRoom(kSamples * spec_.output);
    tensors.saved = Room(layer_->SavedElements(*device_, kSamples));
    tensors.output_gradient = UploadReals(output_gradient_);
    return tensors;
  }

  Values OutputOf(const LayerTensors& tensors) {
    return Download(tensors.output, kSamples * spec_.output);
  }
  Values InputGradient(const LayerTensors& tensors, int i) {
    return Download(tensors.input_gradients[i], inputs_[i].size());
  }
  Values WeightGradient(const LayerTensors& tensors, int i) {
    return Download(tensors.weight_gradients[i], weights_[i].size());
  }

  // d/d variable of the sum of output_gradient_ times the reference's output.
  Values Differences(Values* variable) {
    const auto objective = [&] {
      const Values y = GetParam().reference(inputs_, weights_);
      return std::inner_product(y.begin(), y.end(), output_gradient_.begin(),
                                0.0);
    };
    Values gradient;
    for (double& value : *variable) {
      const double kept = value;
      value = kept + kStepSize;
      const double above = objective();
      value = kept - kStepSize;
      const double below = objective();
      value = kept;
      gradient.push_back((above - below) / (2 * kStepSize));
    }
    return gradient;
  }

  static void ExpectNear(const Values& values, const Values& wanted,
                         const std::string& what) {
    ASSERT_EQ(values.size(), wanted.size()) << what;
    double scale = 1;
    for (const double value : wanted) scale = std::max(scale, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], wanted[i], kTolerance * scale) << what << " " << i;
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Layer> layer_;
  const LayerSpec spec_;
  LayerCall call_;
  std::vector<Values> inputs_, weights_;
  Values output_gradient_;
  std::vector<Device::Memory> memories_;
};

TEST_P(LayerTest, OutputIsTheFormulas) {
  const LayerTensors tensors = MakeTensors();
  layer_->Forward(call_, tensors);
  ExpectNear(OutputOf(tensors), GetParam().reference(inputs_, weights_),
             "output");
}

TEST_P(LayerTest, GradientsAreThoseOfFiniteDifferences) {
  const LayerTensors tensors = MakeTensors();
  layer_->Forward(call_, tensors);
  layer_->Backward(call_, tensors);
  for (size_t i = 0; i < inputs_.size() && !HasTokens(); ++i) {
    ExpectNear(InputGradient(tensors, i), Differences(&inputs_[i]), "input");
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    ExpectNear(WeightGradient(tensors, i), Differences(&weights_[i]),
               spec_.parameters[i].name);
  }
}

TEST_P(LayerTest, InPlaceGivesTheSameBits) {
  LayerTensors apart = MakeTensors();
  layer_->Forward(call_, apart);
  layer_->Backward(call_, apart);
  LayerTensors in_place = MakeTensors();
  if (spec_.in_place_input >= 0) {
    in_place.output = const_cast<Real*>(in_place.inputs[spec_.in_place_input]);
  }
  if (spec_.gradient_in_place) {
    in_place.input_gradients[0] = const_cast<Real*>(in_place.output_gradient);
  }
  layer_->Forward(call_, in_place);
  EXPECT_EQ(OutputOf(in_place), OutputOf(apart));
  layer_->Backward(call_, in_place);
  for (size_t i = 0; i < inputs_.size() && !HasTokens(); ++i) {
    EXPECT_EQ(InputGradient(in_place, i), InputGradient(apart, i));
  }
}

TEST_P(LayerTest, AddsToGradientsWhereItSaysItCan) {
  LayerTensors apart = MakeTensors();
  layer_->Forward(call_, apart);
  layer_->Backward(call_, apart);
  LayerTensors added = MakeTensors();
  std::vector<Values> before;
  for (size_t i = 0; i < inputs_.size() && spec_.accumulates; ++i) {
    before.push_back(RandomValues(30 + i, inputs_[i].size()));
    added.input_gradients[i] = UploadReals(before[i]);
    added.accumulate[i] = true;
  }
  Values weight_before;
  if (spec_.accumulates_weight) {
    weight_before = RandomValues(40, weights_[0].size());
    added.weight_gradients[0] = Upload(weight_before);
    added.accumulate_weight = true;
  }
  layer_->Forward(call_, added);
  layer_->Backward(call_, added);
  for (size_t i = 0; i < before.size(); ++i) {
    Values wanted = InputGradient(apart, i);
    for (size_t k = 0; k < wanted.size(); ++k) wanted[k] += before[i][k];
    ExpectNear(InputGradient(added, i), wanted, "input");
  }
  if (spec_.accumulates_weight) {
    Values wanted = WeightGradient(apart, 0);
    for (size_t k = 0; k < wanted.size(); ++k) wanted[k] += weight_before[k];
    ExpectNear(WeightGradient(added, 0), wanted, "weight");
  }
}

TEST_P(LayerTest, LeavesOutTheInputGradientNobodyWants) {
  if (GetParam().name.rfind("LayerNorm", 0) == 0 ||
      GetParam().name.rfind("BatchNorm", 0) == 0) {
    GTEST_SKIP() << "is never the first layer";
  }
  LayerTensors tensors = MakeTensors();
  tensors.input_gradients = {};
  layer_->Forward(call_, tensors);
  layer_->Backward(call_, tensors);
  for (size_t i = 0; i < weights_.size(); ++i) {
    ExpectNear(WeightGradient(tensors, i), Differences(&weights_[i]),
               spec_.parameters[i].name);
  }
}

Linear::Options LinearOptions(int64_t rows, bool bias) {
  Linear::Options options = Linear::FanInOptions(7, 5);
  options.rows = rows;
  options.bias = bias;
  return options;
}

ConvolutionShape Convolved(int64_t height, int64_t width, int64_t kernel,
                           int64_t stride, int64_t padding) {
  ConvolutionShape shape;
  shape.batch = kSamples;
  shape.in_channels = 2;
  shape.in_height = height;
  shape.in_width = width;
  shape.out_channels = 4;
  shape.kernel = kernel;
  shape.stride = stride;
  shape.padding = padding;
  shape.out_height = Convolution::OutputSide(height, kernel, stride, padding);
  shape.out_width = Convolution::OutputSide(width, kernel, stride, padding);
  return shape;
}

PoolShape Pooled(int64_t height, int64_t width, int64_t window) {
  PoolShape shape;
  shape.channels = 2;
  shape.in_height = height;
  shape.in_width = width;
  shape.out_height = height / window;
  shape.out_width = width / window;
  shape.window = window;
  return shape;
}

template <typename LayerType, typename... Arguments>
std::function<std::unique_ptr<Layer>()> Maker(Arguments... arguments) {
  return [=] { return std::make_unique<LayerType>(arguments...); };
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, auto make,
                       const ReferenceLayer& reference,
                       const std::vector<int32_t>& tokens = {}) {
    cases.push_back({name, make, reference, tokens});
  };
  add("Linear", Maker<Linear>(LinearOptions(1, true)),
      ReferenceLinear(kSamples, 7, 5));
  add("LinearOfRowsWithoutBias", Maker<Linear>(LinearOptions(4, false)),
      ReferenceLinear(kSamples * 4, 7, 5));
  for (const ConvolutionShape& shape :
       {Convolved(5, 6, 3, 1, 1), Convolved(7, 5, 3, 2, 0),
        Convolved(6, 6, 2, 1, 0), Convolved(4, 4, 1, 3, 0)}) {
    add("Convolution" + std::to_string(shape.kernel) + "By" +
            std::to_string(shape.in_height),
        Maker<Convolution>(Convolution::FanInOptions(shape)),
        ReferenceConvolution(shape));
  }
  add("ConvolutionWithoutBias",
      Maker<Convolution>(Convolution::FanOutOptions(Convolved(5, 6, 3, 1, 1))),
      ReferenceConvolution(Convolved(5, 6, 3, 1, 1)));
  for (const PoolShape& shape :
       {Pooled(6, 4, 2), Pooled(5, 7, 2), Pooled(7, 4, 3)}) {
    const std::string name =
        std::to_string(shape.window) + "Of" + std::to_string(shape.in_height);
    add("MaxPool" + name, Maker<MaxPool>(shape), ReferenceMaxPool(shape));
    add("AveragePool" + name, Maker<AveragePool>(shape),
        ReferenceAveragePool(shape));
  }
  PoolShape overlapping = Pooled(7, 6, 3);
  overlapping.stride = 2;
  overlapping.padding = 1;
  overlapping.out_height = 4;
  overlapping.out_width = 3;
  add("MaxPoolOfWindowsThatOverlap", Maker<MaxPool>(overlapping),
      ReferenceMaxPool(overlapping));
  add("GlobalAveragePool", Maker<GlobalAveragePool>(3, 14),
      ReferenceGlobalAveragePool(14));
  for (const bool relu : {false, true}) {
    for (const bool residual : {false, true}) {
      const BatchNorm::Options options = {/*channels=*/3, /*pixels=*/14, relu,
                                          residual};
      add(std::string("BatchNorm") + (residual ? "WithResidual" : "") +
              (relu ? "AndRelu" : ""),
          Maker<BatchNorm>(options),
          ReferenceBatchNorm({kSamples, 3, 14, relu}));
    }
  }
  add("Relu", Maker<Relu>(13), ReferenceRelu());
  add("Gelu", Maker<Gelu>(13), ReferenceGelu());
  add("ExactGelu", Maker<ExactGelu>(13),
      ReferenceActivation(&reference::ExactGelu));
  add("Tanh", Maker<Tanh>(13),
      ReferenceActivation([](double x) { return std::tanh(x); }));
  add("Sigmoid", Maker<Sigmoid>(13), ReferenceActivation(&reference::Sigmoid));
  add("Silu", Maker<Silu>(13), ReferenceActivation(&reference::Silu));
  add("LeakyRelu", Maker<LeakyRelu>(13, 0.2f),
      ReferenceActivation(
          [](double x) { return reference::LeakyRelu(x, 0.2f); }));
  add("Elu", Maker<Elu>(13, 1.5f),
      ReferenceActivation([](double x) { return reference::Elu(x, 1.5f); }));
  add("Softplus", Maker<Softplus>(13),
      ReferenceActivation(&reference::Softplus));
  add("Dropout", Maker<Dropout>(13, kRate),
      ReferenceDropout(kLayerStream, kRate));
  add("LayerNorm", Maker<LayerNorm>(2, 9, true),
      ReferenceLayerNorm(kSamples * 2, 9));
  add("LayerNormWithoutBias", Maker<LayerNorm>(1, 33, false),
      ReferenceLayerNorm(kSamples, 33));
  const std::vector<int32_t> tokens = {4, 0, 4, 1, 1, 4, 2, 0, 0, 4, 4, 4};
  add("Embedding", Maker<Embedding>(Embedding::Options{5, 4, 6, {}}),
      ReferenceEmbedding(4, 6, tokens), tokens);
  const AttentionShape shape{kSamples, 5, 2, 3};
  add("Attention", Maker<Attention>(Attention::Options{5, 2, 3, 0}),
      ReferenceAttention(shape, kLayerStream, 0));
  add("AttentionWithDropout",
      Maker<Attention>(Attention::Options{5, 2, 3, kRate}),
      ReferenceAttention(shape, kLayerStream, kRate));
  add("Residual", Maker<Residual>(17), ReferenceResidual());
  add("Product", Maker<Product>(17), ReferenceProduct());
  add("ColumnsOfTwoInputs", Maker<Columns>(3, 5),
      ReferenceColumns(
          kSamples,
          {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}}));
  const std::vector<Columns::Piece> pieces = {
      {0, 3, 2}, {1, /*first=*/1, /*width=*/2, /*count=*/2, /*stride=*/3}};
  add("ColumnsOfPieces", Maker<Columns>(std::vector<int64_t>{7, 6}, pieces),
      ReferenceColumns(kSamples,
                       {{0, 3}, {0, 4}, {1, 1}, {1, 2}, {1, 4}, {1, 5}}));
  add("BlockSum", Maker<BlockSum>(BlockSum::Options{4, 3, false}),
      ReferenceBlockSum(4, 3));
  add("BlockSumWithBias", Maker<BlockSum>(BlockSum::Options{3, 2, true}),
      ReferenceBlockSum(3, 2));
  // 40 vectors fill more than one tile.
  for (const int64_t count : {2, 5, 40}) {
    const std::string suffix = "Of" + std::to_string(count);
    add("PairDots" + suffix, Maker<PairDots>(count, 3),
        ReferencePairDots(count, 3));
    add("PairSum" + suffix, Maker<PairSum>(count, 3),
        ReferencePairSum(count, 3));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tributary
