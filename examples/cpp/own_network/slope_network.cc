#include "slope_network.h"

#include <memory>
#include <string>

#include "focal_loss.h"
#include "slope.h"

using tributary::Graph;
using tributary::Linear;
using tributary::LossSpec;
using tributary::ValueId;

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
  LossSpec loss = LossSpec::SoftmaxCrossEntropy(data.classes);
  const double focus = config->Number("focus", 0, 0, 10);
  if (focus > 0) {
    loss = LossSpec::Function(std::make_shared<FocalLoss>(data.classes, focus),
                              /*width=*/data.classes);
  }
  graph.SetLoss(loss, value);
  return graph;
}
