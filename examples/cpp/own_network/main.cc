// A network of Tributary's layers and one of its own, trained on a data set of
// its own. The program has every command of `tributary`:
//
//   bazel build //examples/cpp/own_network
//   cd examples/cpp/own_network
//   ../../../bazel-bin/examples/cpp/own_network/own_network train
//   spirals.textproto
#include "tributary/main.h"

#include <memory>
#include <string>

#include "slope.h"
#include "spirals.h"
#include "tributary/nn.h"

namespace {

using tributary::Graph;
using tributary::Linear;
using tributary::ValueId;

// Linear layers, each followed by a Slope, then the logits of the classes.
absl::StatusOr<Graph> BuildSlopeNetwork(tributary::Config* config,
                                        const tributary::DataInfo& data) {
  if (data.kind != tributary::DataInfo::Kind::kRows || data.classes == 0) {
    return absl::InvalidArgumentError(
        "slope_network: needs rows of numbers with classes");
  }
  int64_t width = data.sample_shape[0];
  Graph graph(/*input_elements=*/width);
  ValueId value = graph.input();
  int layer = 0;
  for (const int64_t hidden : config->Integers("hidden", {32}, 1, 4096)) {
    const std::string name = "hidden." + std::to_string(layer++);
    value = graph.Add(
        name, std::make_unique<Linear>(Linear::FanInOptions(width, hidden)),
        {value});
    value = graph.Add(name + ".activation", std::make_unique<Slope>(hidden),
                      {value});
    width = hidden;
  }
  value = graph.Add(
      "output",
      std::make_unique<Linear>(Linear::FanInOptions(width, data.classes)),
      {value});
  tributary::LossSpec loss;
  loss.kind = tributary::LossSpec::Kind::kSoftmaxCrossEntropy;
  loss.width = data.classes;
  graph.SetLoss(loss, value);
  return graph;
}

}  // namespace

int main(int argc, char** argv) {
  tributary::ModelRegistry models;
  models.Add("slope_network", &BuildSlopeNetwork);
  tributary::DataRegistry data_sets;
  data_sets.Add("spirals", &OpenSpirals);
  return tributary::Main(argc, argv, models, data_sets);
}
