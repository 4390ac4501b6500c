#include "worker/nn/network_plan.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"

namespace tributary {
namespace {

constexpr int64_t kSize = 8;

std::unique_ptr<Layer> NetworkPlanMakeLinear() {
  return std::make_unique<Linear>(Linear::FanInOptions(kSize, kSize));
}
std::unique_ptr<Layer> MakeGelu() { return std::make_unique<Gelu>(kSize); }

class GeluPlanTest : public testing::Test {
 protected:
  ValueId Add(std::unique_ptr<Layer> layer, std::vector<ValueId> inputs) {
    return graph_.Add(std::to_string(graph_.nodes().size()), std::move(layer),
                      std::move(inputs));
  }

  NetworkPlan PlanFor(ValueId output) {
    graph_.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kSize}, output);
    const auto plan = PlanNetwork(graph_, /*max_samples=*/4, *device_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  Graph graph_{kSize};
};

TEST_F(GeluPlanTest, ItsNeighboursMakeIt) {
  const ValueId z = Add(NetworkPlanMakeLinear(), {0});
  const ValueId y = Add(MakeGelu(), {z});
  const NetworkPlan plan = PlanFor(Add(NetworkPlanMakeLinear(), {y}));
  EXPECT_TRUE(plan.nodes[1].forward_elsewhere);
  EXPECT_FALSE(plan.nodes[1].has_backward);
  EXPECT_EQ(plan.nodes[0].forward.gelu_output, plan.nodes[1].forward.output);
  EXPECT_EQ(plan.nodes[2].gelu_input, plan.nodes[0].forward.output);
  EXPECT_EQ(plan.nodes[2].input_gradients[0], plan.nodes[0].output_gradient);
  EXPECT_EQ(plan.nodes[0].gelu_input, -1);
  EXPECT_EQ(plan.nodes[2].forward.gelu_output, -1);
}

TEST_F(GeluPlanTest, OneLayerMakesOneOfTwo) {
  const ValueId z = Add(NetworkPlanMakeLinear(), {0});
  const ValueId a = Add(MakeGelu(), {z});
  const ValueId b = Add(MakeGelu(), {z});
  const ValueId sum = Add(std::make_unique<Residual>(kSize), {a, b});
  const NetworkPlan plan = PlanFor(Add(NetworkPlanMakeLinear(), {sum}));
  EXPECT_TRUE(plan.nodes[1].forward_elsewhere);
  EXPECT_EQ(plan.nodes[0].forward.gelu_output, plan.nodes[1].forward.output);
  EXPECT_FALSE(plan.nodes[2].forward_elsewhere);
  EXPECT_TRUE(plan.nodes[1].has_backward);
  EXPECT_TRUE(plan.nodes[2].has_backward);
}

// The gradients of two readers meet before GELU's slope comes in.
TEST_F(GeluPlanTest, OneOfTwoReadersDoesNotMakeItsGradient) {
  const ValueId z = Add(NetworkPlanMakeLinear(), {0});
  const ValueId y = Add(MakeGelu(), {z});
  const ValueId a = Add(NetworkPlanMakeLinear(), {y});
  const ValueId b = Add(NetworkPlanMakeLinear(), {y});
  const NetworkPlan plan =
      PlanFor(Add(std::make_unique<Residual>(kSize), {a, b}));
  EXPECT_TRUE(plan.nodes[1].forward_elsewhere);
  EXPECT_TRUE(plan.nodes[1].has_backward);
  EXPECT_EQ(plan.nodes[2].gelu_input, -1);
  EXPECT_EQ(plan.nodes[3].gelu_input, -1);
}

// GELU of the network's input, and before a layer that cannot make it.
TEST_F(GeluPlanTest, ItMakesItselfElsewhere) {
  const ValueId y = Add(MakeGelu(), {0});
  const ValueId z = Add(NetworkPlanMakeLinear(), {y});
  const ValueId dropped = Add(std::make_unique<Dropout>(kSize, 0.5f), {z});
  const NetworkPlan plan = PlanFor(Add(MakeGelu(), {dropped}));
  EXPECT_FALSE(plan.nodes[0].forward_elsewhere);
  EXPECT_EQ(plan.nodes[1].gelu_input, -1);
  EXPECT_EQ(plan.nodes[1].forward.gelu_output, -1);
  EXPECT_FALSE(plan.nodes[3].forward_elsewhere);
  EXPECT_TRUE(plan.nodes[3].has_backward);
}

// Computes with loops of its own.
class Loops final : public Layer {
 public:
  LayerSpec Spec() const override {
    LayerSpec spec;
    spec.inputs = {kSize};
    spec.output = kSize;
    spec.host_floats = true;
    return spec;
  }
  void Forward(const LayerCall&, const LayerTensors&) const override {}
  void Backward(const LayerCall&, const LayerTensors&) const override {}
};

class SumPlanTest : public GeluPlanTest {
 protected:
  static std::unique_ptr<Layer> MakeNorm() {
    return std::make_unique<LayerNorm>(1, kSize, /*bias=*/true);
  }
  static std::unique_ptr<Layer> MakeSum() {
    return std::make_unique<Residual>(kSize);
  }
};

TEST_F(SumPlanTest, LayerNormMakesItBeforeItsInputsAreOverwritten) {
  const ValueId x = Add(NetworkPlanMakeLinear(), {0});
  const ValueId branch = Add(NetworkPlanMakeLinear(), {x});
  const ValueId sum = Add(MakeSum(), {x, branch});
  const ValueId normed = Add(MakeNorm(), {sum});
  const NetworkPlan plan = PlanFor(Add(NetworkPlanMakeLinear(), {normed}));
  EXPECT_TRUE(plan.nodes[2].forward_elsewhere);
  EXPECT_EQ(plan.nodes[3].sum, 2);
  EXPECT_EQ(plan.nodes[3].forward.inputs[0], plan.nodes[2].forward.output);
  EXPECT_EQ(plan.nodes[2].forward.output,
            plan.nodes[2].forward.inputs[1]);  // In place.
  // Only the sum reads x behind the branch, and layer norm still needs it.
  EXPECT_NE(plan.nodes[3].forward.output, plan.nodes[2].forward.inputs[0]);
  EXPECT_NE(plan.nodes[3].forward.saved, plan.nodes[2].forward.inputs[0]);
}

TEST_F(SumPlanTest, OnlyTheNextLayerMakesIt) {
  const ValueId x = Add(NetworkPlanMakeLinear(), {0});
  const ValueId branch = Add(NetworkPlanMakeLinear(), {x});
  const ValueId sum = Add(MakeSum(), {x, branch});
  const ValueId other = Add(NetworkPlanMakeLinear(), {sum});
  const ValueId normed = Add(MakeNorm(), {sum});
  const NetworkPlan plan = PlanFor(Add(MakeSum(), {normed, other}));
  EXPECT_FALSE(plan.nodes[2].forward_elsewhere);
  EXPECT_EQ(plan.nodes[4].sum, -1);
}

TEST(HostFloatsPlanTest, OnlyDevicesWithFloatsInHostMemoryRunLoops) {
  Graph graph(kSize);
  ValueId value = graph.Add("linear", NetworkPlanMakeLinear(), {graph.input()});
  value = graph.Add("loops", std::make_unique<Loops>(), {value});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kSize}, value);
  for (const Precision precision : {Precision::kFloat32, Precision::kTf32}) {
    EXPECT_TRUE(PlanNetwork(graph, 4, *CreateCpuDevice(precision)).ok());
  }
  const absl::Status status =
      PlanNetwork(graph, 4, *CreateCpuDevice(Precision::kBfloat16)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "loops: this layer computes only on CPUs and in FLOAT32; start the "
            "job with --device cpu, and leave out precision");
}

}  // namespace
}  // namespace tributary
