// The gradient check accepts right layers, networks and losses, and names what
// is wrong in others.
#include "tributary/gradient_check.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const absl::Status& status, const std::string& message) {
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
}

// y = scale x^2 with a scale for each feature, and mistakes on demand.
class Square final : public Layer {
 public:
  enum class Mistake {
    kNone,
    kInput,      // Half of the gradient of the input.
    kParameter,  // The gradient of scale[1] has the wrong sign.
    kUnwrittenOutput,
    kUnwrittenGradient,
    kUndeclaredRead,  // Backward reads the input without saying so.
    kRandomOutput,
  };
  static constexpr int64_t kSize = 3;

  explicit Square(Mistake mistake) : mistake_(mistake) {}

  LayerSpec Spec() const override {
    LayerSpec spec;
    spec.inputs = {kSize};
    spec.output = kSize;
    spec.parameters = {
        {"scale", {kSize}, ParameterGroup::kNoDecay, Initializer::Constant(1)}};
    spec.backward_reads_input = mistake_ != Mistake::kUndeclaredRead;
    spec.host_floats = true;
    return spec;
  }
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override {
    const float* const x = HostFloats(tensors.inputs[0]);
    float* const y = HostFloats(tensors.output);
    const int64_t skipped = mistake_ == Mistake::kUnwrittenOutput ? 1 : 0;
    for (int64_t i = 0; i < call.samples * kSize - skipped; ++i) {
      y[i] = tensors.weights[0][i % kSize] * x[i] * x[i];
      if (mistake_ == Mistake::kRandomOutput) y[i] += calls_++ % 2;
    }
  }
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override {
    const float* const x = HostFloats(tensors.inputs[0]);
    const float* const dy = HostFloats(tensors.output_gradient);
    float* const dx = HostFloats(tensors.input_gradients[0]);
    float* const dscale = tensors.weight_gradients[0];
    for (int64_t c = 0; c < kSize; ++c) dscale[c] = 0;
    for (int64_t i = 0; i < call.samples * kSize; ++i) {
      const int64_t c = i % kSize;
      const float sign =
          mistake_ == Mistake::kParameter && c == 1 ? -1.0f : 1.0f;
      dscale[c] += sign * x[i] * x[i] * dy[i];
      const float factor = mistake_ == Mistake::kInput ? 1.0f : 2.0f;
      if (mistake_ == Mistake::kUnwrittenGradient && i == 4) continue;
      if (dx != nullptr) dx[i] = factor * tensors.weights[0][c] * x[i] * dy[i];
    }
  }

 private:
  const Mistake mistake_;
  mutable int calls_ = 0;
};

TEST(GradientCheckTest, ARightLayerPasses) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    GradientCheckOptions options;
    options.seed = seed;
    EXPECT_EQ(CheckGradients(Square(Square::Mistake::kNone), options),
              absl::OkStatus());
  }
}

TEST(GradientCheckTest, NamesTheTensorAndTheElementThatIsWrong) {
  // The gradient of the first element is nearly 0.
  const absl::Status input = CheckGradients(Square(Square::Mistake::kInput));
  ExpectRefused(input,
                "the gradient of input 0, element 1 of sample 0, is -0.60");
  ExpectRefused(input, "but the finite difference is -1.2");
  ExpectRefused(input, "(8 of 9 elements differ)");
  const absl::Status parameter =
      CheckGradients(Square(Square::Mistake::kParameter));
  ExpectRefused(parameter,
                "the gradient of the parameter scale, element 1, is ");
  ExpectRefused(parameter, "but the finite difference is ");
  ExpectRefused(parameter, "(1 of 3 elements differ)");
}

TEST(GradientCheckTest, NamesWhatIsNotWritten) {
  ExpectRefused(CheckGradients(Square(Square::Mistake::kUnwrittenOutput)),
                "Forward: the output, element 2 of sample 2, is nan");
  ExpectRefused(CheckGradients(Square(Square::Mistake::kUnwrittenGradient)),
                "the gradient of input 0, element 1 of sample 1, is nan: "
                "Backward has not written it");
}

TEST(GradientCheckTest, FindsReadsThatTheSpecDoesNotDeclare) {
  ExpectRefused(CheckGradients(Square(Square::Mistake::kUndeclaredRead)),
                "set LayerSpec::backward_reads_input");
}

TEST(GradientCheckTest, FindsOutputsThatAreNotDeterministic) {
  ExpectRefused(CheckGradients(Square(Square::Mistake::kRandomOutput)),
                "Forward: two calls with equal arguments");
}

TEST(GradientCheckTest, LayersOfTributaryPass) {
  const auto passes = [](const Layer& layer, int32_t tokens = 0) {
    GradientCheckOptions options;
    options.tokens = tokens;
    EXPECT_EQ(CheckGradients(layer, options), absl::OkStatus());
  };
  passes(Linear(Linear::FanInOptions(7, 5)));
  passes(LayerNorm(2, 9, true));
  passes(BatchNorm({/*channels=*/3, /*pixels=*/14, /*relu=*/true}));
  passes(Attention(Attention::Options{5, 2, 3, 0.3f}));
  passes(Embedding(Embedding::Options{5, 4, 6, {}}), /*tokens=*/5);
  passes(Dropout(13, 0.3f));
  passes(Residual(17));
  passes(Relu(50));
  passes(LeakyRelu(50));
  passes(Silu(50));
  passes(Softplus(50));
}

TEST(GradientCheckTest, ATokenLayerNeedsTheNumberOfTokens) {
  ExpectRefused(CheckGradients(Embedding(Embedding::Options{5, 4, 6, {}})),
                "GradientCheckOptions::tokens must be set");
}

// A small network whose hidden layer is followed by `layer`.
Graph NetworkOf(std::unique_ptr<Layer> layer, const LossSpec& loss) {
  Graph graph(4);
  ValueId value =
      graph.Add("hidden", std::make_unique<Linear>(Linear::FanInOptions(4, 3)),
                {graph.input()});
  value = graph.Add("square", std::move(layer), {value});
  value = graph.Add(
      "output", std::make_unique<Linear>(Linear::FanInOptions(3, loss.width)),
      {value});
  graph.SetLoss(loss, value);
  return graph;
}

TEST(GradientCheckTest, ARightNetworkPasses) {
  for (const LossSpec& loss :
       {LossSpec::SoftmaxCrossEntropy(4), LossSpec::BinaryCrossEntropy(),
        LossSpec::MeanSquaredError()}) {
    EXPECT_EQ(CheckGradients(NetworkOf(
                  std::make_unique<Square>(Square::Mistake::kNone), loss)),
              absl::OkStatus());
  }
}

// With every seed, other elements are near a kink of ReLU.
TEST(GradientCheckTest, KinksAreNoErrors) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    GradientCheckOptions options;
    options.seed = seed;
    EXPECT_EQ(CheckGradients(Relu(60), options), absl::OkStatus());
    EXPECT_EQ(CheckGradients(NetworkOf(std::make_unique<Relu>(3),
                                       LossSpec::SoftmaxCrossEntropy(4)),
                             options),
              absl::OkStatus());
  }
}

TEST(GradientCheckTest, NamesTheParameterOfANetwork) {
  const LossSpec loss = LossSpec::SoftmaxCrossEntropy(4);
  ExpectRefused(CheckGradients(NetworkOf(
                    std::make_unique<Square>(Square::Mistake::kInput), loss)),
                "the gradient of the parameter hidden.weight, element 0, is ");
  ExpectRefused(
      CheckGradients(NetworkOf(
          std::make_unique<Square>(Square::Mistake::kParameter), loss)),
      "the gradient of the parameter square.scale, element 1, is ");
  ExpectRefused(CheckGradients(NetworkOf(std::make_unique<Relu>(2), loss)),
                "square: input 0, the output of hidden, has 3 elements");
}

// The logarithm of the hyperbolic cosine of the error.
class LogCosh final : public LossFunction {
 public:
  explicit LogCosh(bool right) : right_(right) {}

  Targets targets() const override { return Targets::kValues; }
  Sums Compute(const Arguments& args) const override {
    Sums sums;
    for (int64_t i = 0; i < args.samples; ++i) {
      const double error = static_cast<double>(args.x[i]) - args.values[i];
      sums.loss += std::log(std::cosh(error));
      if (args.gradient == nullptr) continue;
      args.gradient[i] =
          static_cast<float>(right_ ? std::tanh(error) : std::sinh(error));
    }
    return sums;
  }

 private:
  const bool right_;
};

TEST(GradientCheckTest, ChecksALossOfTheProgram) {
  const auto check = [](bool right) {
    return CheckGradients(
        LossSpec::Function(std::make_shared<LogCosh>(right), /*width=*/1));
  };
  EXPECT_EQ(check(true), absl::OkStatus());
  ExpectRefused(check(false),
                "the gradient of the predictions, element 0 of sample 0, is ");
  EXPECT_EQ(CheckGradients(NetworkOf(
                std::make_unique<Silu>(3),
                LossSpec::Function(std::make_shared<LogCosh>(true), 1))),
            absl::OkStatus());
}

TEST(GradientCheckTest, TheLossesOfTributaryPass) {
  LossSpec smoothed = LossSpec::SoftmaxCrossEntropy(7);
  smoothed.smoothing = 0.1f;
  for (const LossSpec& loss :
       {LossSpec::SoftmaxCrossEntropy(4), LossSpec::BinaryCrossEntropy(),
        LossSpec::MeanSquaredError(), LossSpec::MeanSquaredError(3),
        smoothed}) {
    EXPECT_EQ(CheckGradients(loss), absl::OkStatus());
  }
}

}  // namespace
}  // namespace tributary
