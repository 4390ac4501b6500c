#include "worker/models/stages/stage_cuts.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLayerWidth = 8;

// Two blocks of a linear layer and a ReLU, and a last linear layer:
// in, in.relu, mid, mid.relu, out.
Graph Blocks() {
  Graph graph(kLayerWidth);
  ValueId value = 0;
  const auto linear = [&](const std::string& name) {
    value = graph.Add(name,
                      std::make_unique<Linear>(
                          Linear::FanInOptions(kLayerWidth, kLayerWidth)),
                      {value});
  };
  for (const std::string name : {"in", "mid"}) {
    linear(name);
    value = graph.Add(absl::StrCat(name, ".relu"),
                      std::make_unique<Relu>(kLayerWidth), {value});
  }
  linear("out");
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kLayerWidth}, value);
  return graph;
}

PipelineSpec Split(const std::vector<std::string>& names) {
  PipelineSpec spec;
  spec.set_stages(static_cast<int>(names.size()) + 1);
  for (const std::string& name : names) spec.add_split(name);
  return spec;
}

// Expects that the field is refused with a message that contains `text`.
void ExpectRefused(const PipelineSpec& spec, const std::string& text) {
  EXPECT_THAT(
      CheckStages(spec, Blocks()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("parallel.pipeline.split: "), HasSubstr(text))));
}

TEST(StageCutsTest, CutsLeaveParametersToEachStage) {
  EXPECT_THAT(CutsBetweenParameters(Blocks()),
              ElementsAre(false, false, true, false, true));
}

TEST(StageCutsTest, FindsTheNamedLayers) {
  EXPECT_THAT(*NamedCuts(Split({"mid", "out"}), Blocks()), ElementsAre(2, 4));
  EXPECT_THAT(*NamedCuts(Split({"in.relu"}), Blocks()), ElementsAre(1));
  EXPECT_TRUE(CheckStages(Split({"mid", "out"}), Blocks()).ok());
}

TEST(StageCutsTest, SuggestsALayer) {
  ExpectRefused(Split({"mids"}), "did you mean mid?");
  ExpectRefused(Split({"encoder.block.7"}), "may begin with mid, out");
}

TEST(StageCutsTest, StagesBeginInTheOrderOfTheModel) {
  ExpectRefused(Split({"out", "mid"}), "mid is not behind out");
  ExpectRefused(Split({"mid", "mid"}), "mid is not behind mid");
  ExpectRefused(Split({"in"}), "in is the model's first layer");
}

TEST(StageCutsTest, EachStageNeedsParameters) {
  ExpectRefused(Split({"in.relu", "mid"}), "ends before mid");
  Graph graph = Blocks();
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kLayerWidth},
                graph.Add("end", std::make_unique<Relu>(kLayerWidth), {5}));
  EXPECT_THAT(CheckStages(Split({"end"}), graph),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("begins with end has no parameters")));
}

TEST(StageCutsTest, ThereAreNoMoreStagesThanLayersWithParameters) {
  PipelineSpec spec;
  spec.set_stages(3);
  EXPECT_TRUE(CheckStages(spec, Blocks()).ok());
  spec.set_stages(4);
  EXPECT_THAT(CheckStages(spec, Blocks()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("parallel.pipeline.stages is 4"),
                             HasSubstr("at most 3"))));
}

// A GELU is computed together with the layer before it.
TEST(StageCutsTest, NamesTheLayerWithWhichAnotherIsComputed) {
  Graph graph = Blocks();
  ValueId value = graph.Add(
      "up",
      std::make_unique<Linear>(Linear::FanInOptions(kLayerWidth, kLayerWidth)),
      {5});
  value = graph.Add("gelu", std::make_unique<Gelu>(kLayerWidth), {value});
  value = graph.Add(
      "down",
      std::make_unique<Linear>(Linear::FanInOptions(kLayerWidth, kLayerWidth)),
      {value});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kLayerWidth}, value);
  EXPECT_THAT(CheckStages(Split({"gelu"}), graph),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("with gelu"), HasSubstr("with up"))));
}

}  // namespace
}  // namespace tributary
