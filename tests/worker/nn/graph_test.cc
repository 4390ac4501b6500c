#include "worker/nn/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "proto/parameter_server.pb.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"
#include "worker/nn/network_plan.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Layer> MakeLinear(int64_t inputs, int64_t outputs) {
  return std::make_unique<Linear>(Linear::FanInOptions(inputs, outputs));
}

LossSpec Classes(int64_t classes) {
  return {LossSpec::Kind::kSoftmaxCrossEntropy, 1, classes};
}

class GraphTest : public testing::Test {
 protected:
  absl::Status PlanStatus() {
    return PlanNetwork(graph_, /*max_samples=*/2, *device_).status();
  }
  void ExpectInvalid(const std::string& message) {
    const absl::Status status = PlanStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  Graph graph_{6};
};

TEST_F(GraphTest, ListsParametersWithShapesAndGroups) {
  graph_.SetLoss(Classes(4),
                 graph_.Add("output", MakeLinear(6, 4), {graph_.input()}));
  const ParameterTable& table = graph_.table();
  ASSERT_EQ(table.parameter_size(), 2);
  EXPECT_EQ(table.parameter(0).name(), "output.weight");
  EXPECT_THAT(table.parameter(0).shape(), testing::ElementsAre(4, 6));
  EXPECT_EQ(table.parameter(0).group(), DECAY);
  EXPECT_EQ(table.parameter(1).name(), "output.bias");
  EXPECT_EQ(table.parameter(1).group(), NO_DECAY);
  EXPECT_TRUE(PlanStatus().ok());
}

TEST_F(GraphTest, RefusesInputsOfAnotherSize) {
  graph_.Add("hidden", MakeLinear(7, 4), {graph_.input()});
  ExpectInvalid(
      "hidden: input 0, the network's input, has 6 elements per sample, but "
      "the layer expects 7");
  graph_ = Graph(6);
  const ValueId x = graph_.Add("body", MakeLinear(6, 4), {graph_.input()});
  graph_.Add("head", MakeLinear(5, 2), {x});
  ExpectInvalid(
      "head: input 0, the output of body, has 4 elements per sample, but the "
      "layer expects 5");
}

TEST_F(GraphTest, RefusesInputsThatDoNotExist) {
  graph_.Add("hidden", MakeLinear(6, 4), {3});
  ExpectInvalid("hidden: input 0 does not exist");
}

TEST_F(GraphTest, RefusesAnotherNumberOfInputs) {
  graph_.Add("sum", std::make_unique<Residual>(6), {graph_.input()});
  ExpectInvalid("sum: got 1 input, but the layer expects 2");
}

TEST_F(GraphTest, RefusesALossOfAnotherSize) {
  graph_.SetLoss(Classes(5),
                 graph_.Add("output", MakeLinear(6, 4), {graph_.input()}));
  ExpectInvalid(
      "loss: the output of output has 4 elements per sample, but the loss "
      "expects 5 (1 row of 5)");
}

TEST_F(GraphTest, RefusesALossThatCannotBe) {
  const ValueId x = graph_.Add("output", MakeLinear(6, 4), {graph_.input()});
  LossSpec loss = Classes(4);
  graph_.SetLoss(loss, 7);
  ExpectInvalid("loss: there is no value 7");
  graph_ = Graph(4);
  loss.kind = LossSpec::Kind::kBinaryCrossEntropy;
  graph_.SetLoss(loss, graph_.input());
  ExpectInvalid(
      "loss: binary cross-entropy has the width 1, but LossSpec::width is 4");
  graph_ = Graph(4);
  loss.kind = LossSpec::Kind::kFunction;
  graph_.SetLoss(loss, graph_.input());
  ExpectInvalid("loss: LossSpec::function must be set for Kind::kFunction");
  EXPECT_EQ(x, 1);
}

TEST_F(GraphTest, RefusesSharingAnUnknownParameter) {
  graph_.AddTied("head", MakeLinear(6, 4), {graph_.input()}, "body.weight");
  ExpectInvalid("head: there is no parameter body.weight");
}

TEST_F(GraphTest, RefusesSharingAParameterOfAnotherShape) {
  const ValueId x = graph_.Add("body", MakeLinear(6, 6), {graph_.input()});
  graph_.AddTied("head", MakeLinear(6, 4), {x}, "body.weight");
  ExpectInvalid(
      "head: body.weight has the shape [6, 6], but the layer expects [4, 6]");
}

TEST_F(GraphTest, RefusesSharingWhereGradientsCannotBeAdded) {
  ValueId x = graph_.Add("body", MakeLinear(6, 6), {graph_.input()});
  x = graph_.Add("norm", std::make_unique<LayerNorm>(1, 6, false), {x});
  x = graph_.AddTied("again", std::make_unique<LayerNorm>(1, 6, false), {x},
                     "norm.weight");
  graph_.SetLoss(Classes(6), x);
  ExpectInvalid("norm: its parameter cannot be shared");
}

TEST_F(GraphTest, RefusesLayersThatNobodyUses) {
  const ValueId x = graph_.Add("body", MakeLinear(6, 6), {graph_.input()});
  graph_.Add("lost", std::make_unique<Relu>(6), {x});
  graph_.SetLoss(Classes(6), x);
  ExpectInvalid("lost: nothing uses its output");
}

TEST_F(GraphTest, RefusesNetworksWithoutLossOrParameters) {
  ExpectInvalid("nothing to train");
  graph_.SetLoss(Classes(6), graph_.Add("relu", std::make_unique<Relu>(6),
                                        {graph_.input()}));
  ExpectInvalid("nothing to train");
}

TEST_F(GraphTest, RefusesWhatNoMemoryHolds) {
  graph_.SetLoss(Classes(4),
                 graph_.Add("output", MakeLinear(6, 4), {graph_.input()}));
  EXPECT_EQ(PlanNetwork(graph_, int64_t{1} << 50, *device_).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(GraphTest, ActivationsWorkInPlaceWhereNobodyReadsTheirInput) {
  ValueId x = graph_.Add("body", MakeLinear(6, 6), {graph_.input()});
  x = graph_.Add("relu", std::make_unique<Relu>(6), {x});
  graph_.SetLoss(Classes(4), graph_.Add("output", MakeLinear(6, 4), {x}));
  const auto plan = PlanNetwork(graph_, 2, *device_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes[1].forward.output, plan->nodes[0].forward.output);
  EXPECT_EQ(plan->nodes[1].input_gradients[0], plan->nodes[1].output_gradient);
  EXPECT_EQ(plan->loss_gradient, plan->loss_input);
  // Nobody wants the gradient of the data.
  EXPECT_EQ(plan->nodes[0].input_gradients[0], -1);
}

TEST_F(GraphTest, ResidualStreamHasOneGradientBufferAndNoCopies) {
  ValueId stream = graph_.Add("body", MakeLinear(6, 6), {graph_.input()});
  for (int i = 0; i < 2; ++i) {
    const std::string name = "block" + std::to_string(i);
    ValueId x = graph_.Add(name + ".norm",
                           std::make_unique<LayerNorm>(1, 6, true), {stream});
    x = graph_.Add(name + ".linear", MakeLinear(6, 6), {x});
    stream =
        graph_.Add(name + ".sum", std::make_unique<Residual>(6), {stream, x});
  }
  graph_.SetLoss(Classes(4), graph_.Add("output", MakeLinear(6, 4), {stream}));
  const auto plan = PlanNetwork(graph_, 2, *device_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const int64_t gradient = plan->nodes[6].output_gradient;
  for (const int sum : {3, 6}) {
    const NetworkPlan::Node& node = plan->nodes[sum];
    EXPECT_EQ(node.forward.output, node.forward.inputs[1]);
    EXPECT_EQ(node.output_gradient, gradient);
    EXPECT_EQ(node.input_gradients[0], gradient);
    EXPECT_EQ(node.input_gradients[1], gradient);
  }
  for (const int norm : {1, 4}) {
    EXPECT_TRUE(plan->nodes[norm].accumulate[0]);
    EXPECT_EQ(plan->nodes[norm].scratch[0], -1);
  }
}

}  // namespace
}  // namespace tributary
