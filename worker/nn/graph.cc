#include "worker/nn/graph.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/counted.h"
#include "proto/parameter_server.pb.h"

namespace tributary {
namespace {

// Returns a shape such as "[3, 4]".
std::string ShapeText(const std::vector<int64_t>& shape, int64_t padding) {
  std::string text = absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  if (padding > 0) {
    absl::StrAppend(&text, " with ", padding, " padding elements");
  }
  return text;
}

}  // namespace

Graph::Graph(int64_t input_elements)
    : Graph(input_elements, /*vector_elements=*/0) {}

Graph::Graph(int64_t input_elements, int64_t vector_elements)
    : vector_elements_(vector_elements),
      values_{input_elements},
      table_(std::make_unique<ParameterTable>()) {}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

const ParameterTable& Graph::table() const { return *table_; }

ValueId Graph::Add(absl::string_view name, std::unique_ptr<Layer> layer,
                   std::vector<ValueId> inputs) {
  return AddTied(name, std::move(layer), std::move(inputs), /*shared=*/"");
}

ValueId Graph::AddTied(absl::string_view name, std::unique_ptr<Layer> layer,
                       std::vector<ValueId> inputs, absl::string_view shared) {
  if (layer == nullptr) {
    Fail(name, "the layer is null");
    return input();
  }
  Node node;
  node.name = std::string(name);
  node.spec = layer->Spec();
  node.layer = std::move(layer);
  node.inputs = std::move(inputs);
  node.output = static_cast<ValueId>(values_.size());
  CheckInputs(node);
  if (node.spec.parameters.size() > kMaxLayerParameters) {
    Fail(name, absl::StrCat("has ", node.spec.parameters.size(),
                            " parameters, but a layer can have at most ",
                            kMaxLayerParameters));
    node.spec.parameters.resize(kMaxLayerParameters);
  }
  for (const ParameterSpec& parameter : node.spec.parameters) {
    const bool tied = !shared.empty() && node.parameters.empty();
    node.parameters.push_back(tied ? FindParameter(name, shared, parameter)
                                   : AddParameter(name, parameter));
  }
  values_.push_back(node.spec.output);
  nodes_.push_back(std::move(node));
  return nodes_.back().output;
}

void Graph::SetLoss(const LossSpec& loss, ValueId value) {
  const absl::Status before = status_;
  CheckLoss(loss, value);
  if (status_ != before) return;
  loss_ = loss;
  loss_input_ = value;
}

void Graph::CheckLoss(const LossSpec& loss, ValueId value) {
  if ((loss.kind == LossSpec::Kind::kFunction) != (loss.function != nullptr)) {
    Fail("loss", "LossSpec::function must be set for Kind::kFunction only");
  } else if (loss.kind == LossSpec::Kind::kBinaryCrossEntropy &&
             loss.width != 1) {
    Fail("loss", absl::StrCat("binary cross-entropy has the width 1, but "
                              "LossSpec::width is ",
                              loss.width));
  } else if (loss.kind == LossSpec::Kind::kFunction && loss.rows != 1) {
    Fail("loss", absl::StrCat("a LossFunction has one row, but LossSpec::rows "
                              "is ",
                              loss.rows));
  } else if (value < 0 || value >= static_cast<ValueId>(values_.size())) {
    Fail("loss", absl::StrCat("there is no value ", value));
  } else if (values_[value] != loss.rows * loss.width) {
    Fail("loss",
         absl::StrCat(
             NameOf(value), " has ", Counted(values_[value], "element"),
             " per sample, but the loss expects ", loss.rows * loss.width, " (",
             Counted(loss.rows, "row"), " of ", loss.width, ")"));
  }
}

std::string Graph::NameOf(ValueId value) const {
  return value == input()
             ? "the network's input"
             : absl::StrCat("the output of ", nodes_[value - 1].name);
}

void Graph::Freeze(const std::vector<int>& parameters) {
  for (const int index : parameters) {
    frozen_.insert(index);
    ParameterTable::Parameter* parameter = table_->mutable_parameter(index);
    if (parameter->group() == DECAY) parameter->set_group(NO_DECAY);
  }
}

void Graph::CheckInputs(const Node& node) {
  if (node.inputs.size() != node.spec.inputs.size()) {
    Fail(node.name,
         absl::StrCat("got ", Counted(node.inputs.size(), "input"),
                      ", but the layer expects ", node.spec.inputs.size()));
    return;
  }
  if (node.inputs.size() > kMaxLayerInputs) {
    Fail(node.name, absl::StrCat("has ", node.inputs.size(),
                                 " inputs, but a layer can have at most ",
                                 kMaxLayerInputs));
    return;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    if (value < 0 || value >= node.output) {
      Fail(node.name, absl::StrCat("input ", i, " does not exist"));
    } else if (values_[value] != node.spec.inputs[i]) {
      Fail(node.name, absl::StrCat("input ", i, ", ", NameOf(value), ", has ",
                                   Counted(values_[value], "element"),
                                   " per sample, but the layer expects ",
                                   node.spec.inputs[i]));
    }
  }
}

int Graph::AddParameter(absl::string_view layer, const ParameterSpec& spec) {
  ParameterTable::Parameter* parameter = table_->add_parameter();
  parameter->set_name(absl::StrCat(layer, ".", spec.name));
  for (const int64_t dimension : spec.shape) parameter->add_shape(dimension);
  // The enums have the same values.
  parameter->set_group(static_cast<OptimizerGroup>(spec.group));
  parameter->set_padding(spec.padding);
  initializers_.push_back(spec.initializer);
  return table_->parameter_size() - 1;
}

int Graph::FindParameter(absl::string_view layer, absl::string_view name,
                         const ParameterSpec& wanted) {
  for (int i = 0; i < table_->parameter_size(); ++i) {
    const ParameterTable::Parameter& parameter = table_->parameter(i);
    if (parameter.name() != name) continue;
    if (!std::equal(parameter.shape().begin(), parameter.shape().end(),
                    wanted.shape.begin(), wanted.shape.end()) ||
        parameter.padding() != wanted.padding) {
      Fail(layer, absl::StrCat(name, " has the shape ",
                               ShapeText({parameter.shape().begin(),
                                          parameter.shape().end()},
                                         parameter.padding()),
                               ", but the layer expects ",
                               ShapeText(wanted.shape, wanted.padding)));
    }
    return i;
  }
  Fail(layer, absl::StrCat("there is no parameter ", name));
  return AddParameter(layer, wanted);
}

void Graph::Fail(absl::string_view layer, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(layer, ": ", what));
}

}  // namespace tributary
