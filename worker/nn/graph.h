// Description of a network: its layers, values and parameters.
#ifndef TRIBUTARY_WORKER_NN_GRAPH_H_
#define TRIBUTARY_WORKER_NN_GRAPH_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/layers/loss.h"

namespace tributary {

class ParameterTable;  // proto/parameter_server.proto

// Identifies a value: the network's input or the output of a layer.
using ValueId = int;

// Describes a network: its layers, the values that they read and write, its
// parameters and its loss. Layers are added in forward order. The parameter
// table lists the parameters in the order in which forward first uses them.
// Methods record errors, such as mismatched sizes and unknown names; status()
// returns the first error. The class Network runs the graph. Not thread-safe
// while layers are added.
class Graph {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    LayerSpec spec;
    std::vector<ValueId> inputs;
    ValueId output = 0;
    std::vector<int> parameters;  // Indices into table().
  };

  // `input_elements` is the number of four-byte elements (floats or int32
  // tokens) of one sample.
  explicit Graph(int64_t input_elements);
  // The input is floats, the last `vector_elements` of which are vectors that
  // come from outside of the network. The network computes their gradient (see
  // GradientSink::VectorGradients).
  Graph(int64_t input_elements, int64_t vector_elements);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // Returns the id of the network's input.
  ValueId input() const { return 0; }
  // Returns the number of elements of one sample's vectors, at the end of the
  // input.
  int64_t vector_elements() const { return vector_elements_; }

  // Adds a layer and returns the id of its output. The layer's parameters are
  // named "<name>.<name within the layer>".
  ValueId Add(absl::string_view name, std::unique_ptr<Layer> layer,
              std::vector<ValueId> inputs);
  // Like Add, but parameter 0 of the layer is the existing parameter named
  // `shared`, which belongs to an earlier layer and must have the same shape.
  ValueId AddTied(absl::string_view name, std::unique_ptr<Layer> layer,
                  std::vector<ValueId> inputs, absl::string_view shared);
  // Sets the training objective: `loss`, computed from `value`, which is
  // usually the output of the last layer.
  void SetLoss(const LossSpec& loss, ValueId value);

  // Excludes parameters, given by their positions in table(), from training:
  // their gradients are zero, and weight decay does not apply to them.
  void Freeze(const std::vector<int>& parameters);

  // Returns OK, or InvalidArgument with the first error and the layer's name.
  const absl::Status& status() const { return status_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Returns the number of elements per sample of each value, indexed by
  // ValueId.
  const std::vector<int64_t>& values() const { return values_; }
  // Returns the table of all parameters: their names, shapes and optimizer
  // groups. Its field `chunk_elements` is not set.
  const ParameterTable& table() const;
  const std::vector<Initializer>& initializers() const { return initializers_; }
  // Returns the positions in table() of the parameters that are not trained.
  const std::set<int>& frozen() const { return frozen_; }
  const LossSpec& loss() const { return loss_; }
  ValueId loss_input() const { return loss_input_; }

 private:
  void CheckInputs(const Node& node);
  void CheckLoss(const LossSpec& loss, ValueId value);
  // Returns "the network's input" or "the output of <layer>".
  std::string NameOf(ValueId value) const;
  int AddParameter(absl::string_view layer, const ParameterSpec& spec);
  int FindParameter(absl::string_view layer, absl::string_view name,
                    const ParameterSpec& wanted);
  void Fail(absl::string_view layer, absl::string_view what);

  absl::Status status_;
  int64_t vector_elements_;
  std::vector<Node> nodes_;
  std::vector<int64_t> values_;
  std::unique_ptr<ParameterTable> table_;
  std::vector<Initializer> initializers_;
  std::set<int> frozen_;
  LossSpec loss_;
  ValueId loss_input_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_GRAPH_H_
