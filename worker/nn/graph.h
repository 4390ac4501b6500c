// The description of a network: layers, what flows between them, parameters.
#ifndef TRIBUTARY_WORKER_NN_GRAPH_H_
#define TRIBUTARY_WORKER_NN_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/parameter_server.pb.h"
#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

// Names a value: the network's input or the output of a layer.
using ValueId = int;

// Built by adding layers in forward order; Network then runs it. Parameters are
// listed in the order in which forward first uses them. Mistakes of the builder
// (sizes that do not fit, unknown names) are kept and returned by status().
// Not thread-safe while it is built.
class Graph {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    LayerSpec spec;
    std::vector<ValueId> inputs;
    ValueId output = 0;
    std::vector<int> parameters;  // Places in the table.
  };

  // `input_elements`: four-byte elements (floats, or int32 tokens) of one
  // sample.
  explicit Graph(int64_t input_elements);

  // The network's input.
  ValueId input() const { return 0; }

  // Adds a layer whose parameters are called "<name>.<name within the layer>".
  ValueId Add(absl::string_view name, std::unique_ptr<Layer> layer,
              std::vector<ValueId> inputs);
  // The same, but parameter 0 of the layer is the one called `shared`, which an
  // earlier layer has and which must have the same shape.
  ValueId AddTied(absl::string_view name, std::unique_ptr<Layer> layer,
                  std::vector<ValueId> inputs, absl::string_view shared);
  // What is trained for: `loss` of `value`, usually the last one.
  void SetLoss(const LossSpec& loss, ValueId value);

  // InvalidArgument: the first mistake, with the layer's name.
  const absl::Status& status() const { return status_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Elements per sample of each value.
  const std::vector<int64_t>& values() const { return values_; }
  // Without chunk_elements.
  const ParameterTable& table() const { return table_; }
  const std::vector<Initializer>& initializers() const { return initializers_; }
  const LossSpec& loss() const { return loss_; }
  ValueId loss_input() const { return loss_input_; }

 private:
  void CheckInputs(const Node& node);
  int AddParameter(absl::string_view layer, const ParameterSpec& spec);
  int FindParameter(absl::string_view layer, absl::string_view name,
                    const ParameterSpec& wanted);
  void Fail(absl::string_view layer, absl::string_view what);

  absl::Status status_;
  std::vector<Node> nodes_;
  std::vector<int64_t> values_;
  ParameterTable table_;
  std::vector<Initializer> initializers_;
  LossSpec loss_;
  ValueId loss_input_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_GRAPH_H_
