#include "worker/nn/network_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/parameter_server.pb.h"
#include "worker/nn/memory_plan.h"
#include "worker/nn/tensor_memory.h"

namespace tributary {
namespace {

// 16 TiB: exceeds the memory of any machine, and sums of buffer sizes do not
// overflow.
constexpr int64_t kMaxBufferElements = int64_t{1} << 42;

absl::Status OnlyHostFloats(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   " computes only on CPUs and in FLOAT32; start the job with "
                   "--device cpu, and leave out precision"));
}

bool TakesTokens(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Graph::Node& node) { return node.spec.tokens; });
}

class Planner {
 public:
  Planner(const Graph& graph, int64_t max_samples, const Device& device)
      : graph_(graph),
        nodes_(graph.nodes()),
        count_(static_cast<int>(graph.nodes().size())),
        max_samples_(max_samples),
        device_(device),
        takes_tokens_(TakesTokens(graph)) {}

  absl::StatusOr<NetworkPlan> Plan();

 private:
  // Points in time: 0 copies the input, then layers run forward, then the loss,
  // then layers run backward.
  int ForwardTime(int node) const { return node + 1; }
  // When forward reads the inputs of the node.
  int ReadTime(int node) const {
    return ForwardTime(is_fused_sum_[node] ? node + 1 : node);
  }
  int LossTime() const { return count_ + 1; }
  int BackwardTime(int node) const { return 2 * count_ + 1 - node; }

  absl::Status CheckGraph() const;
  absl::Status CheckSharedParameters() const;
  void FuseSums();
  void FindUses();
  int LastForwardUse(ValueId value) const;
  void PlanValues();
  bool MayOverwrite(int node) const;
  void PlanGradients();
  void PlanInputGradient(int node, int input);
  bool NobodyElseReads(int buffer, int node) const;
  bool MayShareGradient(int node, int input) const;
  void FuseGelu(int node);
  void PlanParameters();
  void PlaceBuffers();

  int NewBuffer(int64_t bytes, int time);
  void Use(int buffer, int time);
  int ProducerOf(ValueId value) const { return value - 1; }
  int64_t Elements(ValueId value) const {
    return graph_.values()[value] * max_samples_;
  }
  int64_t Bytes(ValueId value) const {
    return Elements(value) * (value == graph_.input() && takes_tokens_
                                  ? kElementBytes
                                  : device_.real_bytes());
  }

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  const int count_;
  const int64_t max_samples_;
  const Device& device_;
  const bool takes_tokens_;

  std::vector<bool> is_fused_sum_;           // By node.
  std::vector<std::vector<int>> consumers_;  // By value, ascending.
  std::vector<bool> needs_gradient_;         // By value.
  std::vector<int> last_use_;                // Time of the last use, by value.
  std::vector<int> value_buffer_;
  std::vector<int> gradient_buffer_;  // By value; -1 if not assigned yet.
  // By node: true if the node computes the GELU that follows it.
  std::vector<bool> makes_gelu_;
  std::vector<PlannedBuffer> buffers_;
  // Fields of `plan_` that receive the offset of a buffer.
  std::vector<std::pair<int64_t*, int>> places_;
  NetworkPlan plan_;
};

absl::Status Planner::CheckGraph() const {
  TRIBUTARY_RETURN_IF_ERROR(graph_.status());
  if (max_samples_ < 1) {
    return absl::InvalidArgumentError("a batch must have room for a sample");
  }
  if (graph_.loss_input() < 1 || graph_.table().parameter_size() == 0) {
    return absl::InvalidArgumentError("the network has nothing to train");
  }
  for (size_t value = 0; value < graph_.values().size(); ++value) {
    const int64_t elements = graph_.values()[value];
    if (elements < 1 || elements > kMaxBufferElements / max_samples_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(value == 0 ? "the input" : nodes_[value - 1].name,
                       " has ", elements, " elements per sample, and a batch ",
                       max_samples_, " samples: too large"));
    }
  }
  const bool host_floats =
      !device_.has_own_memory() && device_.precision() == Precision::kFloat32;
  if (!host_floats && graph_.loss().function != nullptr) {
    return OnlyHostFloats("loss: this loss");
  }
  for (const Graph::Node& node : nodes_) {
    if (host_floats || !node.spec.host_floats) continue;
    return OnlyHostFloats(absl::StrCat(node.name, ": this layer"));
  }
  return CheckSharedParameters();
}

absl::Status Planner::CheckSharedParameters() const {
  std::vector<int> uses(graph_.table().parameter_size());
  for (const Graph::Node& node : nodes_) {
    for (const int parameter : node.parameters) ++uses[parameter];
  }
  for (const Graph::Node& node : nodes_) {
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      if (uses[node.parameters[i]] == 1) continue;
      if (i > 0 || !node.spec.accumulates_weight) {
        return absl::InvalidArgumentError(
            absl::StrCat(node.name, ": its parameter cannot be shared"));
      }
    }
  }
  return absl::OkStatus();
}

// Lets layers compute the sum that the layer before them would compute.
void Planner::FuseSums() {
  is_fused_sum_.assign(count_, false);
  for (int i = 1; i < count_; ++i) {
    if (!nodes_[i].spec.fuses_sum || !nodes_[i - 1].spec.is_sum) continue;
    if (nodes_[i].inputs[0] != nodes_[i - 1].output) continue;
    is_fused_sum_[i - 1] = true;
    plan_.nodes[i - 1].forward_elsewhere = true;
    plan_.nodes[i].sum = i - 1;
  }
}

void Planner::FindUses() {
  const size_t values = graph_.values().size();
  consumers_.resize(values);
  needs_gradient_.assign(values, false);
  last_use_.assign(values, 0);
  for (int i = 0; i < count_; ++i) {
    const Graph::Node& node = nodes_[i];
    bool needs = !node.parameters.empty();
    last_use_[node.output] = ForwardTime(i);
    if (node.spec.backward_reads_output) {
      last_use_[node.output] = BackwardTime(i);
    }
    for (const ValueId input : node.inputs) {
      consumers_[input].push_back(i);
      needs = needs || needs_gradient_[input];
      const int use =
          node.spec.backward_reads_input ? BackwardTime(i) : ReadTime(i);
      last_use_[input] = std::max(last_use_[input], use);
    }
    needs_gradient_[node.output] = needs;
  }
  ValueId loss_input = graph_.loss_input();
  last_use_[loss_input] = std::max(last_use_[loss_input], LossTime());
}

int Planner::LastForwardUse(ValueId value) const {
  int last = value == graph_.loss_input() ? LossTime() : 0;
  for (const int consumer : consumers_[value]) {
    last = std::max(last, ReadTime(consumer));
    if (nodes_[consumer].spec.identity_in_evaluation) {
      last = std::max(last, LastForwardUse(nodes_[consumer].output));
    }
  }
  return last;
}

// Returns whether the output of `node` may use the memory of its
// in_place_input.
bool Planner::MayOverwrite(int node) const {
  const LayerSpec& spec = nodes_[node].spec;
  if (spec.in_place_input < 0) return false;
  const std::vector<ValueId>& inputs = nodes_[node].inputs;
  const ValueId overwritten = inputs[spec.in_place_input];
  if (overwritten == graph_.input()) return false;
  const int buffer = value_buffer_[overwritten];
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    if (i != spec.in_place_input && value_buffer_[inputs[i]] == buffer) {
      return false;
    }
  }
  for (ValueId value = 0; value < nodes_[node].output; ++value) {
    if (value_buffer_[value] == buffer && last_use_[value] > ReadTime(node)) {
      return false;
    }
  }
  return true;
}

void Planner::PlanValues() {
  value_buffer_.assign(graph_.values().size(), -1);
  value_buffer_[0] = NewBuffer(Bytes(0), 0);
  std::vector<int> evaluation_buffer = value_buffer_;
  for (int i = 0; i < count_; ++i) {
    const Graph::Node& node = nodes_[i];
    const bool in_place = MayOverwrite(i);
    value_buffer_[node.output] =
        in_place ? value_buffer_[node.inputs[node.spec.in_place_input]]
                 : NewBuffer(Bytes(node.output), ForwardTime(i));
    evaluation_buffer[node.output] = value_buffer_[node.output];
    if (node.spec.identity_in_evaluation) {
      // The input serves as the output in evaluation, so it lives as long.
      const ValueId input = node.inputs[0];
      evaluation_buffer[node.output] = evaluation_buffer[input];
      if (!in_place) {
        last_use_[input] =
            std::max(last_use_[input], LastForwardUse(node.output));
      }
    }
    NetworkPlan::Node& planned = plan_.nodes[i];
    places_.emplace_back(&planned.output, value_buffer_[node.output]);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      places_.emplace_back(&planned.inputs[k], value_buffer_[node.inputs[k]]);
      places_.emplace_back(&planned.evaluation_inputs[k],
                           evaluation_buffer[node.inputs[k]]);
    }
    if (!node.spec.constants.empty()) {
      const auto elements = static_cast<int64_t>(node.spec.constants.size());
      const int buffer = NewBuffer(elements * kElementBytes, 0);
      Use(buffer, BackwardTime(0));
      places_.emplace_back(&planned.constants, buffer);
    }
    const int64_t saved = node.layer->SavedElements(device_, max_samples_);
    if (saved > 0) {
      const int buffer = NewBuffer(saved * kElementBytes, ForwardTime(i));
      Use(buffer, BackwardTime(i));
      places_.emplace_back(&planned.saved, buffer);
    }
  }
  for (size_t value = 0; value < value_buffer_.size(); ++value) {
    Use(value_buffer_[value], last_use_[value]);
  }
  const bool rounds = Bytes(0) < Elements(0) * kElementBytes;
  places_.emplace_back(
      &plan_.input,
      rounds ? NewBuffer(Elements(0) * kElementBytes, 0) : value_buffer_[0]);
  places_.emplace_back(&plan_.input_value, value_buffer_[0]);
  places_.emplace_back(&plan_.loss_input, value_buffer_[graph_.loss_input()]);
  places_.emplace_back(&plan_.evaluation_loss_input,
                       evaluation_buffer[graph_.loss_input()]);
  const int target = NewBuffer(
      graph_.loss().TargetElements() * max_samples_ * kElementBytes, 0);
  Use(target, LossTime());
  places_.emplace_back(&plan_.target, target);
}

void Planner::PlanGradients() {
  gradient_buffer_.assign(graph_.values().size(), -1);
  // The gradient of the logits overwrites them if only the loss reads them from
  // here on, and allows it.
  const ValueId loss_input = graph_.loss_input();
  int loss_buffer = value_buffer_[loss_input];
  for (size_t value = 0; value < value_buffer_.size(); ++value) {
    if (value_buffer_[value] == value_buffer_[loss_input] &&
        last_use_[value] > LossTime()) {
      loss_buffer = -1;
    }
  }
  // A LossFunction does not compute in place.
  if (loss_buffer < 0 || graph_.loss().function != nullptr) {
    loss_buffer = NewBuffer(Bytes(loss_input), LossTime());
  }
  gradient_buffer_[loss_input] = loss_buffer;
  places_.emplace_back(&plan_.loss_gradient, loss_buffer);

  for (int i = count_ - 1; i >= 0; --i) {
    const Graph::Node& node = nodes_[i];
    if (!needs_gradient_[node.output]) continue;
    NetworkPlan::Node& planned = plan_.nodes[i];
    planned.backward = true;
    Use(gradient_buffer_[node.output], BackwardTime(i));
    places_.emplace_back(&planned.output_gradient,
                         gradient_buffer_[node.output]);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (needs_gradient_[node.inputs[k]]) PlanInputGradient(i, k);
    }
  }
}

void Planner::PlanInputGradient(int node, int input) {
  const LayerSpec& spec = nodes_[node].spec;
  const ValueId value = nodes_[node].inputs[input];
  const int output_buffer = gradient_buffer_[nodes_[node].output];
  NetworkPlan::Node& planned = plan_.nodes[node];
  int& buffer = gradient_buffer_[value];
  if (buffer >= 0) {
    planned.accumulate[input] = spec.accumulates;
    if (!spec.accumulates) {
      places_.emplace_back(&planned.scratch[input],
                           NewBuffer(Bytes(value), BackwardTime(node)));
    }
  } else if (MayShareGradient(node, input)) {
    buffer = output_buffer;
  } else {
    buffer = NewBuffer(Bytes(value), BackwardTime(node));
  }
  Use(buffer, BackwardTime(node));
  places_.emplace_back(&planned.input_gradients[input], buffer);
}

// Returns whether no other gradient in the same buffer is still needed once
// Backward of `node` has read its output gradient.
bool Planner::NobodyElseReads(int buffer, int node) const {
  for (int i = 0; i < node; ++i) {
    if (gradient_buffer_[nodes_[i].output] == buffer) return false;
  }
  return true;
}

bool Planner::MayShareGradient(int node, int input) const {
  const LayerSpec& spec = nodes_[node].spec;
  const std::vector<ValueId>& inputs = nodes_[node].inputs;
  const int buffer = gradient_buffer_[nodes_[node].output];
  if (spec.gradient_in_place && input == 0) {
    return NobodyElseReads(buffer, node);
  }
  if (!spec.passes_gradient) return false;
  if (inputs.size() == 2 && inputs[0] == inputs[1]) return false;
  if (input == 0) return NobodyElseReads(buffer, node);
  const ValueId stream = inputs[0];
  if (gradient_buffer_[stream] != buffer) return NobodyElseReads(buffer, node);
  // The stream's gradient has the buffer. The branch may share it if its
  // gradient is read before anything is added to the stream's, and nothing is
  // added to the branch's own.
  const int branch_producer = ProducerOf(inputs[input]);
  if (consumers_[inputs[input]].size() != 1) return false;
  for (const int consumer : consumers_[stream]) {
    if (consumer != node && consumer >= branch_producer) return false;
  }
  return true;
}

// Lets the layers adjacent to a GELU compute it.
void Planner::FuseGelu(int node) {
  const ValueId input = nodes_[node].inputs[0];
  const ValueId output = nodes_[node].output;
  const int before = ProducerOf(input);
  if (before >= 0 && nodes_[before].spec.fuses_gelu && !makes_gelu_[before]) {
    makes_gelu_[before] = true;
    plan_.nodes[node].forward_elsewhere = true;
    Use(value_buffer_[output], ForwardTime(before));
    places_.emplace_back(&plan_.nodes[before].gelu_output,
                         value_buffer_[output]);
  }
  if (!plan_.nodes[node].backward || consumers_[output].size() != 1) return;
  const int behind = consumers_[output][0];
  // Both gradients share one buffer, and nothing is added to either.
  if (nodes_[behind].spec.fuses_gelu && needs_gradient_[input] &&
      gradient_buffer_[input] == gradient_buffer_[output] &&
      !plan_.nodes[behind].accumulate[0] && !plan_.nodes[node].accumulate[0]) {
    plan_.nodes[node].backward = false;
    places_.emplace_back(&plan_.nodes[behind].gelu_input, value_buffer_[input]);
  }
}

// Finds which layers accumulate parameter gradients, and when these become
// final.
void Planner::PlanParameters() {
  const int parameters = graph_.table().parameter_size();
  std::vector<int> first_user(parameters, count_);
  for (int i = count_ - 1; i >= 0; --i) {
    for (const int parameter : nodes_[i].parameters) {
      if (first_user[parameter] < count_) {
        plan_.nodes[i].accumulate_weight = true;
      }
      first_user[parameter] = i;
    }
  }
  int begin = parameters;
  for (int i = count_ - 1; i >= 0; --i) {
    const int before = begin;
    while (begin > 0 && first_user[begin - 1] >= i) --begin;
    if (begin < before) plan_.nodes[i].ready_parameter = begin;
  }
}

int Planner::NewBuffer(int64_t bytes, int time) {
  buffers_.push_back({bytes, time, time});
  return static_cast<int>(buffers_.size()) - 1;
}

void Planner::Use(int buffer, int time) {
  buffers_[buffer].first = std::min(buffers_[buffer].first, time);
  buffers_[buffer].last = std::max(buffers_[buffer].last, time);
}

void Planner::PlaceBuffers() {
  const MemoryPlan memory = PlanMemory(buffers_, kTensorAlignment);
  for (const auto& [place, buffer] : places_) *place = memory.offsets[buffer];
  plan_.bytes = memory.total;
}

absl::StatusOr<NetworkPlan> Planner::Plan() {
  TRIBUTARY_RETURN_IF_ERROR(CheckGraph());
  plan_.nodes.resize(count_);
  FuseSums();
  FindUses();
  for (const Graph::Node& node : nodes_) {
    if (consumers_[node.output].empty() && node.output != graph_.loss_input()) {
      return absl::InvalidArgumentError(
          absl::StrCat(node.name, ": nothing uses its output"));
    }
  }
  if (!needs_gradient_[graph_.loss_input()]) {
    return absl::InvalidArgumentError("the loss depends on no parameter");
  }
  PlanValues();
  PlanGradients();
  makes_gelu_.assign(count_, false);
  for (int i = 0; i < count_; ++i) {
    if (nodes_[i].spec.is_gelu) FuseGelu(i);
  }
  PlanParameters();
  PlaceBuffers();
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device) {
  return Planner(graph, max_samples, device).Plan();
}

}  // namespace tributary
